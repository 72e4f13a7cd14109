"""What stands in files, and how DuckDB reads it."""
