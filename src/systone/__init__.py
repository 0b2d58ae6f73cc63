"""systone: typed decisions with probabilities from System One decision models."""

__version__ = "0.1.0"
