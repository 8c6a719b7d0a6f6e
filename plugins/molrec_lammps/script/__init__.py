"""Input scripts, read without running them."""
