"""Tables of plain Parquet files: trees below one or more roots."""
