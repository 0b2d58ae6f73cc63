"""Head norms and partial rotary embedding.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
