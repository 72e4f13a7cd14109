"""DuckDB over pruned tables: plain SQL, each scan reduced to the files that can hold matching rows."""

from pruner.adapters import without_engine

try:
    import duckdb as duckdb
except ModuleNotFoundError as missing:
    raise without_engine(missing, "duckdb") from None

from pruner_duckdb.connection import Connection, ask_unknown_version, attach, connect
from pruner_duckdb.connection import installed_version as installed_version
from pruner_duckdb.connection import probe as probe
from pruner_duckdb.connection import self_test as self_test
from pruner_duckdb.connection import tested_versions as tested_versions
from pruner_duckdb.decode.decode import decode_expression as decode_predicate
from pruner_duckdb.recording import record, sort_for
from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.scans import Scan

__all__ = [
    "Connection",
    "LazyRelation",
    "Scan",
    "attach",
    "connect",
    "decode_predicate",
    "record",
    "sort_for",
]

engine = "duckdb"

ask_unknown_version()
