"""Checks of a stored record against every rule of the contract."""

from molrec_convert.validation.findings import Finding, Severity
from molrec_convert.validation.record import validate

__all__ = ["Finding", "Severity", "validate"]
