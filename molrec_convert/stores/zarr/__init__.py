"""The record on Zarr V3."""
