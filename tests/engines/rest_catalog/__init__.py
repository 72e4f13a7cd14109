"""Stock Iceberg clients over the REST catalog."""
