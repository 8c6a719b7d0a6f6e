"""Databases of ASE: SQLite, and the other backends."""
