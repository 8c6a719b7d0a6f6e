"""Logical differences of two records."""

from molrec_convert.comparison.records import differences

__all__ = ["differences"]
