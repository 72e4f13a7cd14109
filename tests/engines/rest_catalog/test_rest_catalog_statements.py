"""The shared statements in stock Spark through the catalog, over four formats: the rows that Spark reads without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from tests.engines.spark.spark_tables import copy_tables, everything_read, index_all, rows_of, unordered
from tests.support.cases.statement_tables import DEFINITIONS, TABLES, statement_tables, write_parquet
from tests.support.cases.statements import Case, portable_cases
from tests.support.iceberg.rest import attach_catalog
from tests.support.service.planner import running_service
from tools.spark_sessions import delta_session, iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVERY_CASE = ("parquet",)
"""Formats on which every statement runs; the others run one of each category."""

NO_INSTANTS = ("delta",)
"""Formats whose timestamp columns the catalog leaves out."""


@pytest.fixture(scope="module")
def lake(
    spark: SparkSession, start_session: Callable[[], SparkSession], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The three tables in each format, with indexes where the test can write them at once."""
    root = tmp_path_factory.mktemp("formats")
    write_parquet(root / "parquet")
    copy_tables(statement_tables(start_session).path("cow_v9"), root / "cow")
    session = delta_session(spark)
    for name in TABLES:
        rows = session.read.parquet(f"{root}/parquet/{name}")
        rows.repartitionByRange(4, rows.columns[0]).write.format("delta").save(f"{root}/delta/{name}")
    ice = iceberg_session(spark, root)
    for name in TABLES:
        ice.sql(
            f"CREATE TABLE ice.iceberg.{name} USING iceberg AS SELECT * FROM parquet.`{root}/parquet/{name}`"
        )
        pruner.open_table(root / "iceberg" / name).create_index("all", "*")
        pruner.open_table(root / "delta" / name).create_index("all", "*")
    for folder in ("parquet", "cow"):
        index_all(root / folder)
    return root


@pytest.fixture(scope="module")
def stock(
    spark: SparkSession, lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session that knows the catalog only by its URL."""
    config = tmp_path_factory.mktemp("served") / "pruner.toml"
    formats = ("parquet", "cow", "delta", "iceberg")
    config.write_text(
        "".join(
            f'[tables."{format_}.{name}"]\nuri = "{lake}/{format_}/{name}"\n\n'
            for format_ in formats
            for name in TABLES
        ),
        encoding="utf-8",
    )
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    with running_service(config) as url:
        attach_catalog(session, f"{url}/iceberg", cached=True)
        yield session


def _cases(format_: str) -> list[Case]:
    if format_ in EVERY_CASE:
        return portable_cases()
    known = [
        case for case in portable_cases() if format_ not in NO_INSTANTS or not re.search(r"\bts\b", case.sql)
    ]
    first_of_each = {case.category: case for case in reversed(known)}
    return sorted(first_of_each.values(), key=lambda case: case.line)


@pytest.mark.parametrize("format_", ["parquet", "cow", "delta", "iceberg"])
def test_statements_read_the_same_rows(stock: SparkSession, lake: Path, format_: str) -> None:
    cases, told = _cases(format_), dict[str, str]()
    for name, definition in DEFINITIONS.items():
        served = stock.table(f"lake.{format_}.{name}").columns
        columns = [each for each in definition.schema.names if each in served]
        left_out = set(definition.schema.names) - set(columns)
        assert left_out == ({"ts"} if format_ in NO_INSTANTS and name == "flights" else set())
        told[name] = ", ".join(columns)
    for name, columns in told.items():
        source = stock.sql(f"SELECT {columns} FROM parquet.`{lake}/parquet/{name}`")
        source.createOrReplaceTempView(name)
    with everything_read(stock):
        expected = [rows_of(stock.sql(case.sql)) for case in cases]
    for name, columns in told.items():
        stock.sql(f"SELECT {columns} FROM lake.{format_}.{name}").createOrReplaceTempView(name)
    problems: list[str] = []
    for case, rows in zip(cases, expected, strict=True):
        found = rows_of(stock.sql(case.sql))
        if (found != rows) if case.ordered else (unordered(found) != unordered(rows)):
            problems.append(f"{case.name}: other rows")
    assert len(cases) > 15
    assert not problems, "\n".join(problems)
