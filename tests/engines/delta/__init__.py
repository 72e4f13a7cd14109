"""Delta tables in each engine."""
