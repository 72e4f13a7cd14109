"""The private database whose optimizer is asked for predicates, and what it must know about the user's session."""
