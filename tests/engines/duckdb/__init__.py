"""The DuckDB adapter over Parquet files."""
