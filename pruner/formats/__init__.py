"""Table formats: how tables of each are detected and opened, and what each knows of its tables besides the files."""
