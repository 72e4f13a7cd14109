"""Stock Spark with Iceberg's runtime reads tables of other formats through the catalog, without a plug-in."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.service.rest_catalog import routes
from tests.support.iceberg.rest import attach_catalog, refuses_all_writes
from tests.support.running.profiles import examples
from tests.support.service.planner import running_service
from tests.support.spark.many_scans import in_parts, interpreted, rows_of_a_full_scan, rows_of_scans
from tools.spark_sessions import iceberg_session

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CITIES = ("a b", "Zürich", "10%:x", None)
SEED = 20_261_127


def _rows(at: int, rng: random.Random) -> pa.Table:
    numbers = [None, math.nan, -0.0, 0.0, *(rng.uniform(-3, 9) for _ in range(8))]
    count = len(numbers)
    return pa.table(
        {
            "id": pa.array(range(at * 20, at * 20 + count), pa.int64()),
            "small": pa.array([rng.choice([None, at % 120, -at]) for _ in range(count)], pa.int8()),
            "x": pa.array(numbers, pa.float64()),
            "s": [rng.choice([None, "", "ü", f"s{at}", f"s{at}_%", "z\\"]) for _ in range(count)],
            "ts": pa.array([at * 3_600_000_000 + row for row in range(count)], pa.timestamp("us", "UTC")),
            "n": [{"a": at, "b": str(row)} for row in range(count)],
            "l": [[row, None] for row in range(count)],
        }
    )


@pytest.fixture(scope="module")
def lake(hudi_tables: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Parquet tree with folders of all kinds of values, and a copy-on-write Hudi table."""
    root, rng = tmp_path_factory.mktemp("lake"), random.Random(SEED)
    for at in range(16):
        city = CITIES[at % 4]
        written = {None: "__HIVE_DEFAULT_PARTITION__", "10%:x": "10%25%3Ax"}.get(city, city)
        folder = root / "trips" / f"day=2024-01-0{at // 4 + 1}" / f"city={written}"
        folder.mkdir(parents=True)
        pq.write_table(_rows(at, rng), folder / "f.parquet")
    table = pruner.open_table(root / "trips")
    table.create_index("all", "*")
    table.create_index("texts", "s", "bitmap")
    (root / "pruner.toml").write_text(
        f'[tables."web.trips"]\nuri = "{root}/trips"\n\n[tables."web.hudi"]\nuri = "{hudi_tables.path("cow_v9")}"\n\n'
        f'[tables."web.merged"]\nuri = "{hudi_tables.path("mor_v9")}"\n',
        encoding="utf-8",
    )
    return root


@pytest.fixture(scope="module")
def stock(
    spark: SparkSession, lake: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session that knows the catalog only by its URL."""
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.parquet.filterPushdown", "false")
    with running_service(lake / "pruner.toml") as url:
        attach_catalog(session, f"{url}/iceberg")
        yield session


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files on each page that the catalog returns."""
    pages: list[int] = []
    page_of = routes.page_of

    def counted(*args: Any, **options: Any) -> Any:
        found = page_of(*args, **options)
        pages.append(len(found[0]["file-scan-tasks"]))
        return found

    monkeypatch.setattr(routes, "page_of", counted)
    return pages


def _shown(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


def _plain(stock: SparkSession, lake: Path, condition: str) -> list[str]:
    return _shown(stock.read.parquet(str(lake / "trips")).where(condition).collect())


KEPT: list[tuple[str, int]] = [
    ("true", 16),
    ("id = 205", 1),
    ("id IN (5, 105, 7000)", 2),
    ("day = DATE '2024-01-02'", 4),
    ("day = DATE '2024-01-02' AND city = 'Zürich'", 1),
    ("city IS NULL", 4),
    ("city <> 'a b'", 8),
    ("city NOT IN ('a b', 'Zürich')", 4),
    ("city LIKE '10%'", 4),
    ("NOT (id < 305)", 1),
    ("ts < TIMESTAMP '1970-01-01 02:00:00'", 2),
    ("s = 's3'", 1),
]


@pytest.mark.parametrize(("condition", "kept"), KEPT)
def test_spark_reads_the_files_that_indexes_leave(
    stock: SparkSession, lake: Path, planned: list[int], condition: str, kept: int
) -> None:
    found = stock.sql(f"SELECT * FROM lake.web.trips WHERE {condition}").collect()
    assert _shown(found) == _plain(stock, lake, condition)
    assert planned[-1] == kept


def _condition(rng: random.Random, depth: int = 0) -> str:
    if depth < 3 and rng.random() < 0.45:
        parts = [_condition(rng, depth + 1) for _ in range(2)]
        joined = f" {rng.choice(['AND', 'OR'])} ".join(f"({each})" for each in parts)
        return f"NOT ({joined})" if rng.random() < 0.3 else joined
    values: dict[str, Callable[[], str]] = {
        "id": lambda: str(rng.randint(-5, 330)),
        "small": lambda: str(rng.randint(-16, 16)),
        "x": lambda: rng.choice(["0D", "-0D", "1.5D", "-2D", "double('NaN')"]),
        "s": lambda: rng.choice(["''", "'ü'", "'s3'", "'s1'", "'s11_%'"]),
        "ts": lambda: f"TIMESTAMP '1970-01-01 {rng.randint(0, 16):02}:00:00'",
        "day": lambda: f"DATE '2024-01-0{rng.randint(1, 5)}'",
        "city": lambda: rng.choice(["'a b'", "'Zürich'", "'10%:x'", "'q'"]),
        "n.a": lambda: str(rng.randint(0, 16)),
    }
    column = rng.choice(list(values))
    forms: list[Callable[[], str]] = [
        lambda: f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>=', '<=>'])} {values[column]()}",
        lambda: f"{column} IS {rng.choice(['', 'NOT '])}NULL",
        lambda: f"{column} {rng.choice(['', 'NOT '])}IN ({', '.join(values[column]() for _ in range(3))})",
        lambda: f"s {rng.choice(['', 'NOT '])}LIKE '{rng.choice(['s1%', 's%', '%_%', 'z%'])}'",
        lambda: f"{rng.choice(['', 'NOT '])}isnan(x)",
        lambda: f"{column} BETWEEN {values[column]()} AND {values[column]()}",
    ]
    return rng.choice(forms)()


def test_random_conditions(stock: SparkSession, lake: Path, pytestconfig: pytest.Config) -> None:
    """`PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=5000` runs more of them."""
    rng = random.Random(int(pytestconfig.option.hypothesis_seed))
    conditions = [_condition(rng) for _ in range(examples(160))]
    with interpreted(stock):
        for several in in_parts(conditions):
            expected = rows_of_a_full_scan(stock, f"parquet.`{lake}/trips`", several)
            found = rows_of_scans(stock, "lake.web.trips", several)
            for at, condition in enumerate(several):
                assert found[at] == expected[at], condition


def test_joins_aggregates_and_a_copy_on_write_table_of_hudi(
    stock: SparkSession, lake: Path, planned: list[int]
) -> None:
    """Counts come from the row counts in plans, which are those of the files."""
    assert stock.sql("SELECT count(*), min(day), max(id) FROM lake.web.trips").collect()[0][0] == 16 * 12
    joined = "SELECT count(*) FROM lake.web.trips a JOIN lake.web.trips b USING (id) WHERE a.city = 'a b' AND b.id < 13"
    assert stock.sql(joined).collect()[0][0] == 12
    path = (lake / "pruner.toml").read_text(encoding="utf-8").split('hudi"]\nuri = "')[1].split('"')[0]
    plain = stock.read.format("hudi").load(path)
    columns = [each for each in plain.columns if each in stock.table("lake.web.hudi").columns]
    assert set(plain.columns) - set(columns) == set()
    found = stock.table("lake.web.hudi").select(*columns).collect()
    assert _shown(found) == _shown(plain.select(*columns).collect())


def test_what_cannot_be_served_is_refused(stock: SparkSession, lake: Path) -> None:
    """Such a client does not apply log files, and nothing is written."""
    with pytest.raises(Exception, match="has log files, which clients of this catalog do not apply"):
        stock.table("lake.web.merged")
    refuses_all_writes(stock, "web.trips", lake / "trips")
    assert stock.sql("SELECT count(*) FROM lake.web.trips").collect()[0][0] == 16 * 12
