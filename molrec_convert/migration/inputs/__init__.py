"""The inputs of a migration: found, scanned, opened."""
