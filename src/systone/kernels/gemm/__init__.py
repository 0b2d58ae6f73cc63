"""Matrix products with a weight.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
