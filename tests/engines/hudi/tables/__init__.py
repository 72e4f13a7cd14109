"""Contents of Hudi tables, compared with Hudi's own readers."""
