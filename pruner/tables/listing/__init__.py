"""Listing files: what lies below a root, what tells one version of a file from another, and whose files they are."""
