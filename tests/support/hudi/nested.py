"""Merge-on-read tables with every type inside of structs, lists and maps, and once more inside of those."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import HudiWriter, TableVersion, rows_of
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT = datetime(2013, 3, 31, 1, 59, 59, 999_999)
_BEFORE = datetime(1960, 1, 1, 0, 0, 0, 1)

TYPES: Mapping[str, tuple[Any, Any]] = {
    "BOOLEAN": (True, False),
    "SMALLINT": (7, -1),
    "INT": (2**31 - 1, -5),
    "BIGINT": (2**53 + 1, -5),
    "FLOAT": (0.5, float("nan")),
    "DOUBLE": (0.1, -0.0),
    "DECIMAL(10,2)": (Decimal("12.30"), Decimal("-0.05")),
    "DECIMAL(38,10)": (Decimal("1234567890123456789.0123456789"), Decimal(-1)),
    "STRING": ("é", ""),
    "BINARY": (b"\x00\xff", b""),
    "DATE": (date(1969, 12, 31), date(2013, 1, 1)),
    "TIMESTAMP": (_AT, _BEFORE),
}
"""Two values of each type."""

CLOCKS: Mapping[str, tuple[Any, Any]] = {"TIMESTAMP": (_AT, _BEFORE), "TIMESTAMP_NTZ": (_BEFORE, _AT)}


def columns(types: Mapping[str, tuple[Any, Any]], number: int) -> list[tuple[str, str, Any]]:
    """Return name, type and value of columns that hold the first or second value of each type in every way."""
    fields = ", ".join(f"f{place}: {type_}" for place, type_ in enumerate(types))
    struct = tuple(values[number] for values in types.values())
    found: list[tuple[str, str, Any]] = [
        ("s", f"STRUCT<{fields}>", struct),
        ("ss", f"STRUCT<o: STRUCT<{fields}>, n: INT>", (struct, 1)),
        ("ls", f"ARRAY<STRUCT<{fields}>>", [struct, struct]),
        ("ms", f"MAP<STRING, STRUCT<{fields}>>", {"k": struct}),
    ]
    for place, (type_, values) in enumerate(types.items()):
        value = values[number]
        found += [
            (f"l{place}", f"ARRAY<{type_}>", [value, values[0]]),
            (f"m{place}", f"MAP<STRING, {type_}>", {"k": value}),
        ]
    type_, values = list(types.items())[-1]
    value = values[number]
    return [
        *found,
        ("sl", f"STRUCT<a: ARRAY<{type_}>, m: MAP<STRING, {type_}>>", ([value], {"k": value})),
        ("ll", f"ARRAY<ARRAY<{type_}>>", [[value], []]),
        ("lm", f"ARRAY<MAP<STRING, {type_}>>", [{"k": value}, {}]),
        ("ml", f"MAP<STRING, ARRAY<{type_}>>", {"k": [value]}),
    ]


def _build(
    spark: SparkSession,
    path: Path,
    *,
    version: TableVersion,
    block: str,
    types: Mapping[str, tuple[Any, Any]],
) -> None:
    """Base files, log files over them with values, NULLs and a deletion, and log files alone."""
    declared = ", ".join(f"{name} {type_}" for name, type_, _ in columns(types, 0))
    schema = f"id INT, city STRING, {declared}, ts BIGINT"
    some, others = (tuple(value for _, _, value in columns(types, number)) for number in (0, 1))
    nothing = (None,) * len(some)
    table = HudiWriter(
        spark, path, version, "MERGE_ON_READ", options={"hoodie.logfile.data.block.format": block}
    )
    alone = {"hoodie.index.type": "INMEMORY"}  # an index that finds keys in logs lets inserts go there
    table.insert(rows_of(spark, [(9, "paris", *some, 1), (8, "paris", *nothing, 1)], schema), also=alone)
    first = [some, nothing, others, some]
    table.insert(rows_of(spark, [(i, "rome", *row, 1) for i, row in enumerate(first)], schema))
    table.upsert(rows_of(spark, [(0, "rome", *others, 2), (1, "rome", *some, 2)], schema))
    table.upsert(rows_of(spark, [(2, "rome", *nothing, 3), (1, "rome", *others, 1)], schema))
    table.delete(rows_of(spark, [(3, "rome", *some, 4)], schema))


_KINDS: tuple[tuple[str, Mapping[str, tuple[Any, Any]], str, TableVersion], ...] = (
    ("mor_nested", TYPES, "avro", 6),
    ("mor_nested", TYPES, "avro", 9),
    ("mor_nested", TYPES, "parquet", 9),
    ("mor_nested_clocks", CLOCKS, "avro", 9),
    ("mor_nested_clocks", CLOCKS, "parquet", 6),
)
BUILDERS: dict[str, Builder] = {
    f"{kind}_{block}_v{version}": partial(_build, version=version, block=block, types=types)
    for kind, types, block, version in _KINDS
}


def nested_tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """The tables of this module, built once per machine; read-only."""
    return kept_hudi_tables("hudi-nested", start_spark, BUILDERS, __file__)
