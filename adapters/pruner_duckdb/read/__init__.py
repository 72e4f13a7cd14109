"""How DuckDB reads the slices that a plan keeps: files, folders, schemas, merged rows."""
