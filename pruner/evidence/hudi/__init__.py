"""Evidence from the indexes that Hudi keeps of a table in its own metadata table."""
