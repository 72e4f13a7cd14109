"""Python engines."""
