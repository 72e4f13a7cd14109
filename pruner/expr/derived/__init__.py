"""Expressions that indexes are over: what they mean whatever engine wrote them, and where engines agree about them.

`rows` is the table: one readable row for each function (`function`), with its evaluation in DuckDB and the values on
which engines were compared with it. `canonical` brings an engine's spelling to the one form by which an index is found,
`formats` the patterns of dates, `made` what a record says of the values that it was made of, `indexed` finds the index.
`rising` are the functions that never fall, and `by_column` finds the indexes over them for a condition on their column.
"""
