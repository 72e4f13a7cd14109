"""Object stores, and change feeds about them."""
