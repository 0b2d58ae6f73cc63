"""Causal attention over segment tries, for all rows or for read-out rows.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
