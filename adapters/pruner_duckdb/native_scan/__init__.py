"""DuckDB asks while it plans: tables are views over a table function of our own, and no statement is rewritten.

An extension (`source/`) wraps DuckDB's scan of Parquet files. It asks this package for the files of a table when a
statement is bound, and for those that are left when DuckDB has pushed filters to the scan, and when joins have learned
something more before the scan starts. No statement is parsed here.
"""
