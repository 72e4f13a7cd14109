"""Readers of other projects, each a module whose `ids(root, table_format, condition)` returns the rows it finds."""
