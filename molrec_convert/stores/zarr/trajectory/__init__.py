"""The section `trajectory` of a record."""
