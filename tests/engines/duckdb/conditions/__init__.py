"""Conditions and functions as DuckDB means them."""
