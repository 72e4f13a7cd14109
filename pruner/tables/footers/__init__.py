"""Footers of Parquet files: schemas, types and Bloom filters, and the one schema that a table has of them."""
