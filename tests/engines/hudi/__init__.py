"""Hudi tables in each engine."""
