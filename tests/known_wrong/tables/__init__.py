"""Known mistakes about tables and their changes."""
