"""The collection a migration writes, its index and its recovery."""
