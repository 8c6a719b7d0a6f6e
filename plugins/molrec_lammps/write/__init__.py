"""Data files, force fields and runs, written."""
