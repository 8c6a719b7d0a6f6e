"""The bytes of a value: layout, encoding, decoding, and what is stored read from them."""
