"""The plan of a migration: the union of what inputs declare, and what has to be settled."""
