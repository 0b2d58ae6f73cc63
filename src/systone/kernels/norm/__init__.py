"""RMS norms of hidden states and of GDN outputs.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
