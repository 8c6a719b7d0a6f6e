"""The tree notation: what lies in a store, node by node."""

from molrec_convert.inspect.tree.collection import (
    collection_lines,
    is_collection,
    is_set,
    key_lines,
    key_overview,
    set_key_lines,
    set_lines,
)
from molrec_convert.inspect.tree.text import file_lines, key_named, overview_lines, tree_lines, value_lines

__all__ = [
    "collection_lines",
    "file_lines",
    "is_collection",
    "is_set",
    "key_lines",
    "key_named",
    "key_overview",
    "overview_lines",
    "set_key_lines",
    "set_lines",
    "tree_lines",
    "value_lines",
]
