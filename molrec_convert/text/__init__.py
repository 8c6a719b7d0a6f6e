"""Text files: rows of numbers, compression, contents in memory."""
