"""Records, frames and the index of a stored collection, decoded when they are asked for."""
