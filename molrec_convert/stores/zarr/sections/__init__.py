"""The sections of a record beside its trajectory."""
