"""Files on a disk: synced, replaced as a whole, locked, staged under another name."""
