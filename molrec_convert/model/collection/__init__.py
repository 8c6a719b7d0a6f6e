"""Collections: records behind an index, and queries on it."""
