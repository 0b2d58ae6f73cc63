"""Any causal language model as a decision model: label tokens or statements are what is read."""

from systone.models.label.adapter import LabelAdapter
from systone.models.label.options import LabelOptions, read_options

__all__ = ["LabelAdapter", "LabelOptions", "read_options"]
