"""Conversion of DuckDB's plans and bound expressions to the common expression form."""
