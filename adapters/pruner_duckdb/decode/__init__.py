"""DuckDB's plans and bound expressions in the common expression form."""
