"""Which indexes and which layout would help a table, judged by statements, footers and a sample of the files."""
