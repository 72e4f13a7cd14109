"""Index types: what each records of a slice and what evidence it gives."""
