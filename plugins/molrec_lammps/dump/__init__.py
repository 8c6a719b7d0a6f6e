"""Dump files, read and written."""
