"""Predicates: the common expression form, its text, and binding to a table."""
