"""Random contents of indexes."""
