"""Known mistakes about predicates."""
