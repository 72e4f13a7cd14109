"""The content of files, and how DuckDB reads it."""
