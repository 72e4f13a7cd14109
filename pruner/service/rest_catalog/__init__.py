"""A read-only Iceberg REST catalog that plans scans on the server.

With it, stock clients prune without any software of ours.

Source: the Iceberg REST catalog's OpenAPI description (apache/iceberg, open-api/rest-catalog-open-api.yaml).
"""
