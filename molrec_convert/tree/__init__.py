"""The tree notation: what lies in a store, node by node."""

from molrec_convert.tree.lines import file_lines, tree_lines
from molrec_convert.tree.overview import overview_lines

__all__ = ["file_lines", "overview_lines", "tree_lines"]
