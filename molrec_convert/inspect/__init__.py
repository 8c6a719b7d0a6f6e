"""Look at what is stored: validation, differences, the tree, statistics."""
