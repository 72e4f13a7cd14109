"""Apache Iceberg: table metadata, manifests, and the snapshots made from them."""
