"""The native scan: tables are views over a table function of our own, DuckDB asks for files while it plans, and no
statement is rewritten.

An extension (`source/`) wraps DuckDB's scan of Parquet files. It asks this package for the files of a table when a
statement is bound, for those that are left once DuckDB has pushed filters down to the scan, and again for those that
are left by what joins have learned before the scan starts. No statement is parsed here.
"""
