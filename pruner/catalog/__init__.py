"""`pruner.toml`, and tables by name."""
