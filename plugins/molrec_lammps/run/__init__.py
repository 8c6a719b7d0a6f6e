"""The files of a run as one record."""
