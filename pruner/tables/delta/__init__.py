"""Delta tables: a reader of their log, and the snapshots made from it."""
