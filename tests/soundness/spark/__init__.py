"""Random tables and predicates, judged by Spark."""
