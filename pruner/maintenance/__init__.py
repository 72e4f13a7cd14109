"""Building and maintaining indexes."""
