"""The causal convolution of GDN layers, across segment borders.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
