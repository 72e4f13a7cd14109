"""Stock clients of Iceberg over the REST catalog."""
