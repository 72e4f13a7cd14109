"""Spark as a judge."""
