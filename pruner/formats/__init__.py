"""Table formats: how tables of each are found and opened, and what each knows of its tables besides the files."""
