"""The gated activation of the MLP.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
