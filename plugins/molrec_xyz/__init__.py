"""XYZ and extended XYZ files: read into records, written from them."""
