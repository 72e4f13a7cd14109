"""The state of a connection and its session, and what statements share."""
