"""The tree notation: what lies in a store, node by node."""

from molrec_convert.inspect.tree.collection import collection_lines, is_collection, key_lines, key_overview
from molrec_convert.inspect.tree.collection_set import is_set, set_key_lines, set_lines
from molrec_convert.inspect.tree.lines import file_lines, tree_lines
from molrec_convert.inspect.tree.overview import overview_lines
from molrec_convert.inspect.tree.value import key_named, value_lines

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
