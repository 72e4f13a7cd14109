"""Binding: from the expression form to predicates over the columns of one table."""
