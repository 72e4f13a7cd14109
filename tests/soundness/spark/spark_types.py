"""What tests of mixed Parquet types need for Spark: files that it writes itself, settings, predicates."""

from __future__ import annotations

import datetime
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.soundness.mixed_tables import MixedTable, draw_over_column
from tests.soundness.old_types import OLD_FAMILIES
from tests.soundness.parquet_type_kinds import Family, Way, as_day, as_moment, as_word
from tests.soundness.written_types import WRITTEN_FAMILIES
from tests.support.parquet.types import plain
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Mapping[str, tuple[str, ...]] = {
    "spark.sql.session.timeZone": ("UTC", "America/New_York", "Asia/Kolkata"),
    "spark.sql.ansi.enabled": ("false", "false", "true"),
    "spark.sql.parquet.binaryAsString": ("false", "false", "true"),
    "spark.sql.legacy.parquet.nanosAsLong": ("false", "false", "false", "true"),
    "spark.sql.parquet.int96TimestampConversion": ("false", "true"),
    "spark.sql.parquet.datetimeRebaseModeInRead": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.parquet.int96RebaseModeInRead": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true", "true", "false"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.parquet.enableVectorizedReader": ("true", "false"),
    "spark.sql.parquet.mergeSchema": ("false", "true"),
}
"""Settings of a session for reading files, besides its zone and its mode, which change predicates as well."""

_WHOLE_READING = {
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
_CORRECTED = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_SCHEMAS: Mapping[str, tuple[str, ...]] = {
    "moments": ("TIMESTAMP", "TIMESTAMP_NTZ", "BIGINT"),
    "old moments": ("TIMESTAMP", "TIMESTAMP_NTZ"),
    "texts": ("STRING", "BINARY"),
    "integers": ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL(20,0)"),
    "narrow integers": ("TINYINT", "SMALLINT", "INT", "BIGINT"),
    "days": ("DATE", "INT"),
    "old days": ("DATE",),
    "decimals": ("DECIMAL(9,2)", "DECIMAL(12,2)", "DECIMAL(12,3)", "DECIMAL(30,2)"),
    "sixteen bytes": ("BINARY",),
    "fractions": ("FLOAT", "DOUBLE"),
}
"""Types that a user's own schema may give a column of each family."""


def rules(rng: random.Random) -> dict[str, str]:
    """Random settings of a session.

    Spark's own pruning is off: with statistics that do not count NaN it loses rows of `x > 2` and of `x IN (NaN)`.
    """
    return {
        **{name: rng.choice(values) for name, values in SETTINGS.items()},
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.parquet.filterPushdown": "false",
    }


PLAINLY: Mapping[str, str] = {
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""Settings with which Spark takes from files what they declare."""


def schema(rng: random.Random, table: MixedTable) -> str | None:
    """The user's own schema, or None for the one that Spark infers."""
    if rng.random() < 0.6:
        return None
    type_ = rng.choice(_SCHEMAS[table.family.name])
    return f"x STRUCT<y: {type_}>" if "." in table.name else f"x {type_}"


def families(spark: SparkSession) -> tuple[Family, ...]:
    """The ways of all writers, including those of files that Spark writes itself."""
    return tuple(
        replace(each, ways=(*each.ways, *(made for way in each.ways for made in _of_spark(way, spark))))
        for each in (*WRITTEN_FAMILIES, *OLD_FAMILIES)
    )


_BY_SPARK: Mapping[str, tuple[Mapping[str, str], ...]] = {
    "us UTC both": tuple(
        {"outputTimestampType": kind} for kind in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS")
    ),
    "us naive both": ({},),
    "decimal(9, 2) both": ({"writeLegacyFormat": "true"}, {"writeLegacyFormat": "false"}),
    "decimal(12, 3) both": ({"writeLegacyFormat": "true"}, {"writeLegacyFormat": "false"}),
    "decimal(30, 2) both": ({"writeLegacyFormat": "true"}, {"writeLegacyFormat": "false"}),
    "old us of no writer": (
        {"outputTimestampType": "TIMESTAMP_MICROS", "datetimeRebaseModeInWrite": "LEGACY"},
        {"outputTimestampType": "TIMESTAMP_MILLIS"},
        {"outputTimestampType": "INT96", "int96RebaseModeInWrite": "LEGACY"},
        {"outputTimestampType": "INT96"},
    ),
    "old date of no writer": ({"datetimeRebaseModeInWrite": "LEGACY"}, {}),
}
"""Ways that Spark writes as well, with the settings for each."""


def _of_spark(way: Way, spark: SparkSession) -> list[Way]:
    return [
        replace(
            way,
            name=" ".join([way.name, "by Spark", *(f"{name}={value}" for name, value in chosen.items())]),
            write=_by_spark(spark, {f"spark.sql.parquet.{name}": value for name, value in chosen.items()}),
        )
        for chosen in _BY_SPARK.get(way.name, ())
    ]


def _by_spark(spark: SparkSession, chosen: Mapping[str, str]) -> Callable[[Path, pa.Array[Any], str], Path]:
    """A writer that has Spark read a plain file and write it its own way."""

    def write(path: Path, values: pa.Array[Any], _: str) -> Path:
        folder = path.with_suffix(".spark")
        source = plain(path.with_suffix(".plain"), values)
        with settings(spark, {**_CORRECTED, **_WHOLE_READING, **chosen}):
            spark.read.parquet(str(source)).coalesce(1).write.parquet(str(folder))
        (part,) = folder.glob("*.parquet")
        part.rename(path)
        shutil.rmtree(folder)
        source.unlink()
        return path

    return write


def _day_of(number: int) -> str:
    return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=number))


def _instants(n: int) -> list[str]:
    moment = as_moment(n)
    return [
        f"TIMESTAMP '{moment}'",
        f"TIMESTAMP '{moment}+00:00'",
        f"TIMESTAMP_NTZ '{moment}'",
        f"TIMESTAMP_LTZ '{moment} America/New_York'",
        f"'{moment}'",
        f"DATE '{moment.date()}'",
        f"TIMESTAMP '{moment}' - INTERVAL 5 HOURS",
        f"TIMESTAMP '9999-01-01 00:{n // 60 % 17:02}:{n % 60:02}'",
        f"{n * 10**6}L",
    ]


def _whole(n: int) -> list[str]:
    return [str(n), str(n), f"{n}.5", f"'{n}'", f"{n % 256}", f"{n % 65536}L", f"{n}.0D"]


LITERALS: Mapping[str, Callable[[int], list[str]]] = {
    "moments": _instants,
    "old moments": _instants,
    "texts": lambda n: [f"'{as_word(n)}'", f"'{n}'", f"X'{as_word(n).encode().hex()}'", f"{n}"],
    "integers": _whole,
    "narrow integers": _whole,
    "days": lambda n: [f"DATE '{as_day(n)}'", f"'{as_day(n)}'", f"TIMESTAMP '{as_day(n)} 01:00:00'", str(n)],
    "old days": lambda n: [f"DATE '{_day_of(n)}'", f"'{_day_of(n)}'"],
    "decimals": lambda n: [
        str(Decimal(n).scaleb(-2)),
        str(n // 100),
        f"'{Decimal(n).scaleb(-2)}'",
        f"{n / 100}D",
    ],
    "sixteen bytes": lambda n: [f"X'{f'{n:016}'.encode().hex()}'", f"'{n:016}'"],
    "fractions": lambda n: [
        f"{n / 10}D",
        f"CAST({n / 10} AS FLOAT)",
        f"{n / 10}",
        "double('NaN')",
        str(n // 10),
    ],
}

_SHAPES: Mapping[str, tuple[str, ...]] = {
    "moments": (
        "CAST({x} AS DATE) {op} {literal}",
        "date_trunc('DAY', {x}) {op} {literal}",
        "year({x}) {op} 2024",
        "CAST({x} AS TIMESTAMP) {op} {literal}",
        "CAST({x} AS TIMESTAMP_NTZ) {op} {literal}",
    ),
    "texts": (
        "startswith({x}, '{letter}')",
        "{x} LIKE '{letter}%'",
        "CAST({x} AS STRING) {op} {literal}",
        "upper({x}) {op} {literal}",
    ),
    "integers": (
        "CAST({x} AS TINYINT) {op} {literal}",
        "CAST({x} AS BIGINT) {op} {literal}",
        "{x} + 1 {op} {literal}",
        "{x} % 7 = 3",
    ),
    "days": ("CAST({x} AS TIMESTAMP) {op} {literal}", "year({x}) {op} 2022"),
    "decimals": (
        "CAST({x} AS DECIMAL(38,4)) {op} {literal}",
        "CAST({x} AS DOUBLE) {op} {literal}",
        "CAST({x} AS INT) {op} {literal}",
    ),
    "sixteen bytes": ("CAST({x} AS STRING) {op} {literal}",),
    "fractions": ("isnan({x})", "CAST({x} AS DOUBLE) {op} {literal}"),
}


def draw_predicate(rng: random.Random, table: MixedTable) -> str:
    """A predicate on the table's column; Spark may refuse it for the column's type."""
    family = table.family.name

    def literal() -> str:
        return rng.choice(LITERALS[family](rng.choice(table.numbers) + rng.choice([0, 0, 0, -1, 1])))

    shapes = _SHAPES[family.removeprefix("old ").removeprefix("narrow ")]
    return draw_over_column(rng, table.name, literal, shapes, "<=>")
