"""Files of ASE, read: surveys, records, collections, labels."""
