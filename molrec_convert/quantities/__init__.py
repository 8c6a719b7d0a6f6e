"""What numbers mean: quantities, their units, and the chemical elements. Without a record and without a format."""
