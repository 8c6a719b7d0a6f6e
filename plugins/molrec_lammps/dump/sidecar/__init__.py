"""Dumps of local data and of grids, beside the dump of the atoms or alone."""
