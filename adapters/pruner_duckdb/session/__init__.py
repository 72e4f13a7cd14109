"""What the user's session knows and the shadow database does not."""
