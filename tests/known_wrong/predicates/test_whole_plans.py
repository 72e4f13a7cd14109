"""Traps that only a whole plan can show: nothing lost, and what is provable dropped."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import pruner


def _table(root: Path, files: dict[str, dict[str, list[object]]]) -> pruner.Table:
    for name, columns in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), root / name)
    return pruner.open_table(str(root))


def _kept(table: pruner.Table, predicate: str, dialect: str = "duckdb") -> list[str]:
    return sorted(Path(file).name for file in table.plan(predicate, dialect=dialect).files)


FOUR_FILES: dict[str, dict[str, list[object]]] = {
    "a.parquet": {"x": [1, 2], "y": [10, 20], "s": ["ab", "ac"]},
    "b.parquet": {"x": [3, 4], "y": [30, None], "s": ["b", "bc"]},
    "c.parquet": {"x": [5, 6], "y": [50, 60], "s": ["ca", "cz"]},
    "d.parquet": {"x": [None, None], "y": [70, 80], "s": [None, "da"]},
}


def test_l1_not_over_what_is_not_understood(tmp_path: Path) -> None:
    """L1 (HUDI-7315, SPARK-12218, SPARK-32792): negating an approximation must not turn it into a claim."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("stats", on="*")
    every = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    assert _kept(table, "NOT (x > 2 AND reverse(s) = 'B')") == every
    assert _kept(table, "NOT (x > 2 OR reverse(s) = 'B')") == ["a.parquet"]
    assert _kept(table, "NOT (NOT (reverse(s) = 'B'))") == every
    assert _kept(table, "NOT (s LIKE 'a%c')") == every
    assert _kept(table, "NOT (s LIKE 'a%')") == ["b.parquet", "c.parquet", "d.parquet"]
    assert _kept(table, "NOT (x <= 4)") == ["c.parquet"]


def test_l2_and_or_of_an_indexed_and_another_column(tmp_path: Path) -> None:
    """L2 (HUDI-7246, HUDI-5557, HUDI-7267): what no index covers neither decides an AND nor vanishes from an OR."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("only_x", on="x")
    every = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    assert _kept(table, "x = 3 AND y = 10") == ["b.parquet"]
    assert _kept(table, "x = 3 OR y = 70") == every
    assert _kept(table, "x = 3 AND (y = 10 OR length(s) > 1)") == ["b.parquet"]
    assert _kept(table, "(x = 3 AND y = 30) OR x = 6") == ["b.parquet", "c.parquet"]


def test_l10_all_rows_match_only_where_false_and_null_are_excluded(tmp_path: Path) -> None:
    """L10 (pyiceberg's strict evaluator): "may match" is no proof that every row does."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("stats", on="*")
    assert table.plan("x >= 3").all_match.tolist() == [False, True, True, False]
    assert table.plan("y >= 30").all_match.tolist() == [False, False, True, True]
    assert table.plan("x >= 3 OR x IS NULL").all_match.tolist() == [False, True, True, True]
    assert table.plan("x >= 3 AND upper(s) = 'B'").all_match.tolist() == [False] * 4


def test_n5_dollars_and_backslashes_in_values_and_partitions(tmp_path: Path) -> None:
    """N5 (RFC-92's key `column$value$partition$file`): a separator inside a value must not end it."""
    files: dict[str, dict[str, list[object]]] = {
        "p=a$b/1.parquet": {"v": ["x$y", "x$z"]},
        "p=a/2.parquet": {"v": ["x", "x"]},
        "p=a\\$b/3.parquet": {"v": ["x\\$y", "x\\$y"]},
    }
    table = _table(tmp_path / "t", files)
    table.create_index("stats", on="v")
    assert _kept(table, "p = 'a$b'") == ["1.parquet"]
    assert _kept(table, "p = 'a'") == ["2.parquet"]
    assert _kept(table, "v = 'x$y'") == ["1.parquet"]
    assert _kept(table, "v = 'x'") == ["2.parquet"]
    assert _kept(table, "v LIKE 'x\\%'") == ["3.parquet"]


def test_n10_an_overwrite_of_the_table_keeps_the_definitions(tmp_path: Path) -> None:
    """N10 (measured): `mode("overwrite")` removes what lies inside a table; the metadata table lies beside it."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("stats", on="x")
    shutil.rmtree(tmp_path / "t")
    table = _table(tmp_path / "t", {"new.parquet": {"x": [1]}, "other.parquet": {"x": [9]}})
    assert [index.name for index in table.indexes()] == ["stats"]
    assert _kept(table, "x = 9") == ["new.parquet", "other.parquet"]
    table.refresh()
    assert _kept(table, "x = 9") == ["other.parquet"]


def _rewrite_newest(table: pruner.Table, change: Callable[[dict[str, object]], None]) -> None:
    """Change the newest log entry as a newer pruner could have written it, checksum included."""
    newest = max((Path(table.index_uri) / "log").glob("*.json"))
    state = msgspec.json.decode(newest.read_bytes())["state"]
    change(state)
    payload = msgspec.json.encode(state)
    entry = {"checksum": xxhash.xxh3_128_hexdigest(payload), "state": msgspec.Raw(payload)}
    newest.write_bytes(msgspec.json.encode(entry))


def test_i4_one_unusable_index_leaves_the_others_working(tmp_path: Path) -> None:
    """I4 (PARQUET-1391): an unknown type, a newer version and a damaged segment each cost that index alone."""
    root = tmp_path / "t"
    table = _table(root, FOUR_FILES)
    for name, column in (("good", "x"), ("unknown", "y"), ("newer", "y"), ("damaged", "s")):
        table.create_index(name, on=column)

    def change(state: dict[str, object]) -> None:
        definitions = state["definitions"]
        assert isinstance(definitions, list)
        definitions[1]["using"] = "crystal_ball"
        definitions[2]["record_version"] = 99

    _rewrite_newest(table, change)
    damaged = table.indexes()[3].uuid
    newest = max((Path(table.index_uri) / "log").glob("*.json"))
    for segment in msgspec.json.decode(newest.read_bytes())["state"]["segments"]:
        if segment["definition"] == damaged:
            path = Path(table.index_uri) / segment["path"]
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)
    table = pruner.open_table(str(root))
    plan = table.plan("x = 3 AND y = 30 AND s = 'b'")
    assert [Path(file).name for file in plan.files] == ["b.parquet"]
    reasons = " ".join(plan.fallbacks)
    assert "crystal_ball" in reasons
    assert "99" in reasons
    assert "damaged" in reasons
    assert _kept(table, "y = 30") == ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("zone", "wall_clock", "matching", "kept"),
    [
        ("America/New_York", "2020-11-01 01:30:00", {"1.parquet", "2.parquet"}, "1 2"),
        ("America/New_York", "2020-11-01 02:30:00", {"3.parquet"}, "2 3"),
        ("Europe/Amsterdam", "1930-06-01 12:00:00", {"4.parquet"}, "4 5"),
    ],
)
def test_s13_folds_and_offsets_of_seconds(
    tmp_path: Path, zone: str, wall_clock: str, matching: set[str], kept: str
) -> None:
    """S13 (delta#5512, ClickHouse#119173): a repeated hour, and a zone that was 1:19:32 ahead of UTC."""
    moments = [
        *("2020-11-01T04:30:00", "2020-11-01T05:30:00", "2020-11-01T06:30:00", "2020-11-01T07:30:00"),
        *("1930-06-01T10:40:28", "1930-06-01T11:00:00", "1930-06-02T10:40:28"),
    ]
    files: dict[str, dict[str, list[object]]] = {
        f"{i}.parquet": {"at": [datetime.fromisoformat(f"{moment}+00:00")]}
        for i, moment in enumerate(moments)
    }
    table = _table(tmp_path / "t", files)
    table.create_index("stats", on="at")
    plan = table.plan(f"at = TIMESTAMP '{wall_clock}'", semantics=pruner.Semantics("duckdb", zone=zone))
    names = [Path(file).name for file in plan.files]
    assert matching <= set(names)
    assert names == [f"{name}.parquet" for name in kept.split()]


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_t9_an_index_answers_for_its_own_column_alone(tmp_path: Path, using: str) -> None:
    """T9 (HUDI-7569, hudi#12234): keys of one column, or of several, say nothing about lists over another."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("keys", on="x", using=using)
    every = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    assert _kept(table, "y IN (1, 2)") == every
    assert _kept(table, "s IN ('1', '2')") == every
    assert _kept(table, "x IN (1, 7) OR y IN (1, 2)") == every
    assert _kept(table, "x IN (1, 7) AND y IN (1, 2)") == ["a.parquet"]
    assert _kept(table, "(x, y) IN ((1, 20), (7, 10))") == ["a.parquet"]
    assert _kept(table, "(y, s) IN ((1, '20'), (7, '10'))") == every


FUNCTIONS_THAT_DIFFER = [
    "upper(s) = 'SS'",
    "lower(s) = 'i'",
    "substring(s, 0, 3) = 'ab'",
    "concat(s, NULL) = 'ab'",
    "x / 2 = 1",
    "s LIKE '%b'",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dialect", ["duckdb", "spark", "trino"])
def test_i5_functions_that_engines_compute_otherwise_prune_nothing(tmp_path: Path, dialect: str) -> None:
    """I5: `upper('ß')`, position 0 of a substring, integer division: evidence of one engine never serves another."""
    table = _table(tmp_path / "t", FOUR_FILES)
    table.create_index("stats", on="*")
    table.create_index("bits", on=["x", "s"], using="bitmap")
    every = ["a.parquet", "b.parquet", "c.parquet", "d.parquet"]
    for predicate in FUNCTIONS_THAT_DIFFER:
        assert _kept(table, predicate, dialect) == every, predicate
        assert _kept(table, f"NOT ({predicate})", dialect) == every, predicate
        assert _kept(table, f"x = 3 AND {predicate}", dialect) == ["b.parquet"], predicate
