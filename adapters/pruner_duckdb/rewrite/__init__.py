"""Statements over pruned tables, rewritten to read the files that a plan keeps."""
