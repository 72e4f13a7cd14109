"""What stands in Hudi tables, held against Hudi's own readers."""
