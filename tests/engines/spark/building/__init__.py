"""Indexes that Spark builds, and keys that it looks up."""
