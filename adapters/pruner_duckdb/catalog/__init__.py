"""The tables, views and macros that a connection knows by name."""
