"""Predicates bound to a table: leaves that speak of one column, and what follows from a whole predicate."""
