"""Functions that indexes may be over, and conditions with them."""
