"""Catalyst's predicates, expressions, values and types as the common expression form."""
