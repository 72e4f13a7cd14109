"""From slices to index records."""
