"""Conditions and functions with Spark's meaning."""
