"""SQL as text and as DuckDB's parse trees: tokens, statements of every kind, and their parts."""
