"""Known mistakes about Spark."""
