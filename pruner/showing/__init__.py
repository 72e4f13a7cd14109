"""How plans and tables are displayed: HTML that escapes everything, and strips of slices for pages and terminals."""
