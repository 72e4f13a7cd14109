"""Known mistakes about Trino."""
