"""The LMDB file: environment, pages, keys, checksums."""
