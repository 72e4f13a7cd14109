"""Readers of other projects, each a module with `ids(root, table_format, condition)`, the rows that it finds."""
