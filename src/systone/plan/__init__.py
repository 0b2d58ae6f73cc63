"""Rows of requests -> tries -> passes -> the tables that kernels read. No torch, no model."""

from systone.plan.budget import Load, PassBudget
from systone.plan.build import build_tables
from systone.plan.memo import TablesMemo
from systone.plan.passes import Part, cut_passes
from systone.plan.policy import POLICIES, Policy, Reuse, Scope, Sharing, auto_pays
from systone.plan.tables import CHUNK, I32, TILES, PassTables, Row, Segment
from systone.plan.trie import Trie, build_trie

__all__ = [
    "CHUNK",
    "I32",
    "POLICIES",
    "TILES",
    "Load",
    "Part",
    "PassBudget",
    "PassTables",
    "Policy",
    "Reuse",
    "Row",
    "Scope",
    "Segment",
    "Sharing",
    "TablesMemo",
    "Trie",
    "auto_pays",
    "build_tables",
    "build_trie",
    "cut_passes",
]
