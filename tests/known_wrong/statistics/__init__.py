"""Known mistakes about statistics and indexes."""
