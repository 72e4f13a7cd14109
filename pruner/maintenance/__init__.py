"""Building indexes and looking after them."""
