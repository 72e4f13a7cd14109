"""One statement on its way to DuckDB, run as the caller would."""
