"""Iceberg tables, manifests and answers of the REST catalog."""
