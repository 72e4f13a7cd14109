"""Literals and comparisons, judged by DuckDB."""
