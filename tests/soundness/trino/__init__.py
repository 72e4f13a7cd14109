"""Random tables and predicates, judged by Trino."""
