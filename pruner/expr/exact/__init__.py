"""Exact comparisons of literals with a column's values: numbers, dates, timestamps, text, casts."""
