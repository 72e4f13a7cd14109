"""What index types over columns share: supported types and conversions, orders, calendars, and trust in files."""
