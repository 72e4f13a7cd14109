"""Whole statements as users write them."""
