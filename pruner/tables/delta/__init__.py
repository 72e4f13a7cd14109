"""Delta tables: their log, read by ourselves, and the snapshots that it makes."""
