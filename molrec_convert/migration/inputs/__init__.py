"""The inputs of a migration: found, opened, scanned; the tasks they are divided into."""
