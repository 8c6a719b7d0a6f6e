"""Logical differences of two records, or of two collections."""

from molrec_convert.inspect.diff.records import collection_differences, differences

__all__ = ["collection_differences", "differences"]
