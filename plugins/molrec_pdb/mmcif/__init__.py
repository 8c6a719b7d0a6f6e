"""mmCIF files, read and written."""
