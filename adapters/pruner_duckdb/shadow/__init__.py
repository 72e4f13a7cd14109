"""The private database that DuckDB's optimizer is asked in, and what it has to know of the user's session."""
