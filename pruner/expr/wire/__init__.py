"""The expression form as JSON, for programs in other languages."""
