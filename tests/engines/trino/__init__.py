"""The Trino plugin."""
