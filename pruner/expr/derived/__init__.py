"""Indexed expressions: what they mean whatever engine wrote them, and where engines agree about them.

`pruner.expr.functions.registry` is the table: one readable row per function (`function`), with its evaluation in DuckDB
and the values on which engines were compared with it; `shapes` there has the patterns of dates. `canonical` converts an
engine's spelling to the canonical form by which an index is found. `indexed` finds the index, and has the provenance of
recorded values. `pruner.expr.functions.rising` has the functions that never fall, and
`pruner.expr.binding.by_functions` finds the indexes over them for a condition on their column.
"""
