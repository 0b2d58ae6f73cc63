"""Copies of chosen rows.

`reference` is the plain torch truth; every other backend keeps its signatures.
"""
