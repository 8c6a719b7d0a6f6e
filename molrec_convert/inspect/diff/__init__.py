"""Logical differences of two records, or of two collections."""

from molrec_convert.inspect.diff.collections import collection_differences
from molrec_convert.inspect.diff.records import differences

__all__ = ["collection_differences", "differences"]
