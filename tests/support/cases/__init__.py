"""The cases of `tests/spec`, and the tables that they read."""
