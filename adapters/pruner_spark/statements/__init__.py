"""SQL statements: sources and subqueries of statements that write, and MERGE INTO."""
