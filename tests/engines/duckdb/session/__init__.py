"""What a connection and its session know, and what statements share."""
