"""Footers of Parquet files: schemas, types and Bloom filters, and the table schema made from them."""
