"""Delta tables by Spark and by hand."""
