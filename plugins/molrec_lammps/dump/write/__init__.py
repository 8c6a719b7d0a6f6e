"""Writing of text dumps."""
