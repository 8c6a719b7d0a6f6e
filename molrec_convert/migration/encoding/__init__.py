"""Inputs encoded as the bytes of records."""
