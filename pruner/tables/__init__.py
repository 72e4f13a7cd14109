"""Snapshots of tables: which slices there are, of which files, with which schema."""
