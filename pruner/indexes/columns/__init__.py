"""What index types over columns share: supported types and their conversions, orders, calendars, doubts about files."""
