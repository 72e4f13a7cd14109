"""Evidence from the indexes that Hudi keeps in a table's own metadata table."""
