"""Conversion: read an input, shape it, write a target."""
