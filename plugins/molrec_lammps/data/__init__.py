"""Data files, read."""
