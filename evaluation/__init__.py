"""Judging decision models on labelled items: reading items, measures, tables."""
