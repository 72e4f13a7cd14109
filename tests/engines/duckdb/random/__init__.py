"""Random statements against DuckDB alone."""
