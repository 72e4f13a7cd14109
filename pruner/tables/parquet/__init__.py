"""Tables of plain Parquet files: trees below one or several roots."""
