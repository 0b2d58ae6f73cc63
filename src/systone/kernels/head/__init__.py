"""FP32 read-out heads.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
