"""A table as a pyarrow Dataset: engines read it with the filters that they push down, and no row is lost."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import pruner
from pruner_python.arrow_filters import decode
from pruner_python.datasets import PrunedDataset
from tests.support.running.profiles import examples

FILES = 12
ROWS = 20
NAN = float("nan")


def lake(root: Path) -> str:
    """Twelve files: `n` and the moments are clustered, `k` and `s` are not; there are NaN, both zeros and NULLs."""
    root.mkdir(parents=True)
    chosen = random.Random(4)
    for number in range(FILES):
        first = number * ROWS
        count = range(first, first + ROWS)
        rows = pa.table(
            {
                "n": pa.array([None if i % 7 == 0 else i for i in count], pa.int64()),
                "k": pa.array([chosen.choice([number, 99]) for _ in count], pa.int32()),
                "f": pa.array([chosen.choice([-0.0, 0.0, NAN, None, number + 0.5]) for _ in count]),
                "s": [chosen.choice([None, f"a{number}", "b", 'c"; drop']) for _ in count],
                "day": pa.array([19000 + number] * ROWS, pa.int32()).cast(pa.date32()),
                "ts": pa.array([(19000 + number) * 86_400_000_000 + i for i in count], pa.timestamp("us")),
                "zoned": pa.array(
                    [(19000 + number) * 86_400_000_000 + i for i in count], pa.timestamp("us", "UTC")
                ),
                "price": pa.array(list(count), pa.int32()).cast(pa.decimal128(12, 2)),
                "flag": [chosen.choice([True, None]) if number % 2 else False for _ in count],
                "part": pa.array([{"x": i} for i in count]),
            }
        )
        pq.write_table(rows, root / f"{number:02}.parquet")
    table = pruner.open_table(str(root))
    table.create_index("stats", on=["n", "f", "day", "ts", "zoned", "price", "flag", "part.x"])
    table.create_index("ks", on="k", using="bitmap")
    table.create_index("texts", on="s", using="bloom_filter")
    return str(root)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    return lake(tmp_path_factory.mktemp("datasets") / "t")


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("n = 50", 1),
        ("50 > n", 3),
        ("n BETWEEN 50 AND 61", 2),
        ("n IN (3, 201)", 2),
        ("n NOT IN (3, 201)", 12),
        ("n IS NULL", 12),
        ("k = 4", 1),
        ("k = 4 OR n = 230", 2),
        ("s = 'a7'", 1),
        ("s = 'c\"; drop'", 12),
        ("f < 0", 0),
        ("f > 10.6", 12),  # DuckDB does not push this one down, because of NaN
        ("day = DATE '2022-01-10'", 1),
        ("year(day) = 2021", 0),
        ("ts >= TIMESTAMP '2022-01-18'", 2),
        ("zoned < TIMESTAMPTZ '2022-01-09 00:00:00+00'", 1),
        ("price = 17.00", 1),
        ("part.x = 100", 1),
        ("n + 1 = 51", 1),  # the optimizer rewrites it
        ("hash(n) = 7", 12),
    ],
)
def test_duckdb_reads_what_is_left(root: str, condition: str, kept: int) -> None:
    dataset = PrunedDataset(pruner.open_table(root))
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("t", dataset)
    # In memory: over files DuckDB skips row groups by statistics that exclude NaN.
    con.execute(f"CREATE TABLE plain AS FROM read_parquet('{root}/*.parquet')")
    plain = con.execute(f"SELECT * EXCLUDE f FROM plain WHERE {condition}").fetchall()
    found = con.execute(f"SELECT * EXCLUDE f FROM t WHERE {condition}").fetchall()
    assert sorted(map(repr, found)) == sorted(map(repr, plain))
    scan = dataset.last_plans[-1]
    assert (scan.plan.kept, scan.plan.total) == (kept, FILES), scan.plan.explain()


@pytest.mark.slow
def test_no_filter_loses_a_row(root: str) -> None:
    """No file that is left out has a row for which pyarrow itself finds the filter true."""
    dataset = PrunedDataset(pruner.open_table(root))
    files = {str(path): pq.read_table(path) for path in sorted(Path(root).glob("*.parquet"))}
    made = random.Random(21)
    dropped = empty = 0
    for _ in range(max(60, examples(150))):  # fewer say nothing about the share
        filter_ = _filter(made, 3)
        kept = _kept(dataset, filter_)
        for path, rows in files.items():
            matching = rows.filter(filter_).num_rows
            empty += not matching
            if path not in kept:
                dropped += 1
                assert not matching, (str(filter_), path)
    assert dropped > 0.35 * empty


def _kept(dataset: PrunedDataset, filter_: Any) -> set[str]:
    dataset.scanner(["n"], filter_)
    return set(dataset.last_plans[-1].plan.files)


def _filter(made: random.Random, depth: int) -> Any:
    if depth and made.random() < 0.5:
        left, right = _filter(made, depth - 1), _filter(made, depth - 1)
        return made.choice([left & right, left | right, ~left])
    name, values = made.choice(
        [
            ("n", [0, 3, 50, 100, 239, 10**12]),
            ("k", [0, 4, 11, 99, -1]),
            ("f", [0.0, -0.0, 3.5, NAN, math.inf]),
            ("s", ["a7", "b", "", 'c"; drop']),
            ("flag", [True, False]),
            ("n", [1.5, 2**53 + 0.0]),
            ("price", [Decimal("17.00"), Decimal("3.50")]),
        ]
    )
    field, value = pc.field(name), made.choice(values)
    options: list[Any] = [
        field.is_null(),
        field.is_valid(),
        field.isin(made.sample(values, 2)),
        field.isin([value, None]),
    ]
    options += [field == value, field != value]
    if name != "flag":
        options += [field < value, field >= value, value > field, pc.is_null(field, nan_is_null=True)]
    return made.choice(options)


@pytest.mark.parametrize("day", [-800_000, 19_004, 2_932_900])
def test_days_outside_pythons_years(tmp_path: Path, day: int) -> None:
    """The year -221 and the year 10000: pyarrow compares them, but has no Python value for them."""
    days: Any = pa.array([19_000, 19_004, -800_000, 2_932_900], pa.int32()).cast(pa.date32())
    for number in range(len(days)):
        pq.write_table(pa.table({"day": days[number : number + 1]}), tmp_path / f"{number}.parquet")
    table = pruner.open_table(str(tmp_path))
    table.create_index("days", on="day", using="bitmap")
    dataset, wanted = PrunedDataset(table), pa.scalar(day, pa.int32()).cast(pa.date32())
    for filter_ in (pc.field("day") == wanted, pc.field("day").isin(pa.array([wanted], pa.date32()))):
        expected = ds.dataset(str(tmp_path)).to_table(filter=filter_)
        assert len(expected) == 1
        assert dataset.to_table(filter=filter_).column("day").equals(expected.column("day"))
        assert dataset.last_plans[-1].plan.kept == 1


def test_a_filter_of_another_form_keeps_every_file(root: str) -> None:
    schema = pruner.open_table(root).schema.to_arrow()
    assert "not understood" in repr(decode(pc.field("n") + 1 == 5, schema))
    assert "not understood" in repr(
        decode(pc.field("n") == 5.0, schema)
    )  # pyarrow casts the column and rounds
    assert "not understood" in repr(decode(pc.field(0) == 5, schema))
    assert "not understood" in repr(decode("no filter", schema))


@pytest.mark.slow
def test_it_sees_files_that_came_later(tmp_path: Path) -> None:
    root = lake(tmp_path / "t")
    con = duckdb.connect()
    con.register("t", PrunedDataset(pruner.open_table(root)))
    con.execute("CREATE VIEW v AS SELECT * FROM t WHERE n = 3")
    before = con.execute("SELECT count(*) FROM v").fetchone()
    path = Path(root) / "later.parquet"
    pq.write_table(pq.read_table(Path(root) / "00.parquet"), path)
    assert (before, con.execute("SELECT count(*) FROM v").fetchone()) == ((1,), (2,))


@pytest.mark.slow
def test_columns_that_change_under_a_statement_are_an_error(tmp_path: Path) -> None:
    root = lake(tmp_path / "t")
    dataset = PrunedDataset(pruner.open_table(root))
    assert dataset.schema.names[0] == "n"
    pq.write_table(pa.table({"added": [1]}), Path(root) / "later.parquet")
    with pytest.raises(pruner.TableError, match="changed while the statement was planned"):
        dataset.to_table()
    assert "added" in dataset.schema.names
    assert dataset.to_table().num_rows == FILES * ROWS + 1


def test_polars_reads_it(root: str) -> None:
    dataset = PrunedDataset(pruner.open_table(root))
    found: Any = pl.scan_pyarrow_dataset(dataset).filter(pl.col("n") == 50).select("n", "s").collect()
    assert found["n"].to_list() == [50]
    assert dataset.last_plans[-1].plan.kept == 1


def test_everything_that_a_dataset_can_do_is_done_over_the_table(tmp_path: Path) -> None:
    """A method that pyarrow adds to its class must be checked: one that is not overridden would read nothing."""
    for first in (0, 50):
        pq.write_table(
            pa.table({"n": range(first, first + 50), "s": ["a"] * 50}), tmp_path / f"{first}.parquet"
        )
    dataset: Any = PrunedDataset(pruner.open_table(str(tmp_path)))
    some = pc.field("n") == 50
    done = {
        "count_rows": dataset.count_rows() == 100 and dataset.count_rows(filter=some) == 1,
        "filter": dataset.filter(some).count_rows() == 1,
        "get_fragments": 1 <= len(list(dataset.get_fragments(some))) <= 2,
        "head": dataset.head(5).num_rows == 5,
        "join": dataset.join(ds.dataset(pa.table({"n": [50]})), "n", join_type="inner").count_rows() == 1,
        "join_asof": callable(dataset.join_asof),
        "partition_expression": dataset.partition_expression.equals(pc.scalar(True)),
        "replace_schema": dataset.replace_schema(dataset.schema).count_rows() == 100,
        "scanner": dataset.scanner(columns=["n"], filter=some).to_table().num_rows == 1,
        "schema": dataset.schema.names == ["n", "s"],
        "sort_by": dataset.sort_by([("n", "descending")]).head(1)["n"].to_pylist() == [99],
        "take": dataset.take([0, 3]).num_rows == 2,
        "to_batches": sum(batch.num_rows for batch in dataset.to_batches()) == 100,
        "to_table": dataset.to_table(columns=["s"], filter=some).column_names == ["s"],
    }
    assert [name for name, well in done.items() if not well] == []
    assert sorted(done) == [name for name in dir(ds.Dataset) if not name.startswith("_")]
