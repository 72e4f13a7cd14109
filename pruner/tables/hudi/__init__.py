"""Hudi tables: timeline, file groups, schema history, log files and Hudi's own metadata table."""
