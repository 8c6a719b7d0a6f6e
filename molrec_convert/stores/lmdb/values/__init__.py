"""The bytes of a value: layout, encoding, decoding."""
