"""Conditions and functions with DuckDB's semantics."""
