"""Random Hudi tables and histories."""
