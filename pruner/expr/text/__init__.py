"""Predicates as text: every SQL dialect to the common expression form, by the SQL parser."""
