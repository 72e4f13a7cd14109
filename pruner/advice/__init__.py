"""What would help a table: which indexes and which layout, judged by statements, footers and a sample of the files."""
