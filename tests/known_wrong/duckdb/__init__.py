"""Known mistakes about DuckDB."""
