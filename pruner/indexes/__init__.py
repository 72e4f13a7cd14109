"""Index types: what each records about a slice, and the evidence it gives."""
