"""Spark over pruned tables: DataFrames and SQL, each scan reduced to the files that can hold matching rows."""

from pruner_spark.connect import connect_read
from pruner_spark.reading import last_plans, prune, read, read_with_keys, register
from pruner_spark.relations.scans import Scan
from pruner_spark.sorting import sort_for
from pruner_spark.statements import sql

__all__ = [
    "Scan",
    "connect_read",
    "last_plans",
    "prune",
    "read",
    "read_with_keys",
    "register",
    "sort_for",
    "sql",
]

engine = "spark"
