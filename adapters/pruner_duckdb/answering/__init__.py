"""Parts of statements that a table's metadata answers: aggregates, groups and first rows."""
