"""Statements and scans of Spark."""
