"""DuckDB as a judge, and the statements that it runs."""
