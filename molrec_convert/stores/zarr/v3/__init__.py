"""Arrays and groups of Zarr V3: metadata, codecs, chunks, shards, zip files."""
