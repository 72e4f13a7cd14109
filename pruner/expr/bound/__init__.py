"""Predicates bound to a table: leaves over one column each, and what follows from a whole predicate."""
