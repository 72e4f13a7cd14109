"""Whole statements as people write them."""
