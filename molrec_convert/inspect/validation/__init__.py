"""Checks of a stored record against every rule of the contract."""

from molrec_convert.inspect.validation.findings import Finding, Severity
from molrec_convert.inspect.validation.record import validate

__all__ = ["Finding", "Severity", "validate"]
