"""Iceberg tables in each engine."""
