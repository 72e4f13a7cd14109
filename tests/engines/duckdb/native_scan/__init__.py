"""DuckDB's native scan."""
