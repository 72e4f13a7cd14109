"""A real Trino with the plugin, and tables for it."""
