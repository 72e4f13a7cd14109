"""How plans and tables are drawn: HTML that escapes everything, and strips of slices for pages and terminals."""
