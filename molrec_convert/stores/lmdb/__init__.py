"""Collections in LMDB: frame bytes, writer, reader. The `lmdb` library is loaded only when a file is opened."""
