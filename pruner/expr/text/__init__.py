"""Predicates as text: every dialect of SQL to the common expression form, by the SQL parser."""
