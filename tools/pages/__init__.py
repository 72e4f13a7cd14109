"""Generated pages of the documentation, and the browser that opens pages."""
