"""Listing files: what is below a root, what distinguishes versions of a file, and which table format owns the files."""
