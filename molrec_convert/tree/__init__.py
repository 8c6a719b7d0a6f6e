"""The tree notation: what lies in a store, node by node."""

from molrec_convert.tree.lines import file_lines, tree_lines

__all__ = ["file_lines", "tree_lines"]
