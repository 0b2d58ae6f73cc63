"""The gated delta rule over a pass of segment tries.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
