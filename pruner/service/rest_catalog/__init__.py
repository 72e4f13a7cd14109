"""An Iceberg REST catalog, read-only, that plans scans on the server.

Stock clients prune by it with nothing of ours installed.

Source: the Iceberg REST catalog's OpenAPI description (apache/iceberg, open-api/rest-catalog-open-api.yaml).
"""
