"""Apache Iceberg: table metadata, manifests, and what of them becomes a snapshot."""
