"""Traps of bloom filters and record indexes: nothing lost, and what is provable dropped."""

from __future__ import annotations

import base64
import datetime
import hashlib
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash

import pruner
from pruner.arrow import arrow
from tests.support.hudi.union_rows import union_rows
from tests.support.kept.tables import KeptTables

Columns = dict[str, Any]


OPTIONS = {"bloom_filter": {"fpp": "0.0001"}, "record_index": {}}


@pytest.fixture(params=list(OPTIONS))
def using(request: pytest.FixtureRequest) -> str:
    """Both types answer the same questions, from hashes of the same values."""
    return request.param


def _table(
    root: Path, files: dict[str, Columns], on: list[str], using: str = "bloom_filter", **clauses: Any
) -> pruner.Table:
    _write(root, files)
    table = pruner.open_table(str(root))
    table.create_index("values", on=on, using=using, options=OPTIONS[using], **clauses)
    return table


def _write(root: Path, files: dict[str, Columns]) -> None:
    for name, columns in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), root / name)


def _kept(table: pruner.Table, predicate: str, dialect: str = "duckdb") -> list[str]:
    return sorted(Path(file).stem for file in table.plan(predicate, dialect=dialect).files)


@pytest.mark.sampled(2)
def test_s6_signed_zeros_are_one_value(using: str, tmp_path: Path) -> None:
    """S6 (databend#20520, duckdb#24005, iceberg-rust#2398): -0.0 and 0.0 are equal, in whichever file they are."""
    files = {"minus.parquet": {"x": [-0.0]}, "plus.parquet": {"x": [0.0]}, "none.parquet": {"x": [3.0]}}
    table = _table(tmp_path / "t", files, ["x"], using)
    for literal in ("0.0", "-0.0", "0", "CAST(0 AS DECIMAL(5, 2))"):
        assert _kept(table, f"x = {literal}") == ["minus", "plus"]
        assert _kept(table, f"x IN ({literal}, 7)") == ["minus", "plus"]


@pytest.mark.sampled(2)
def test_s2_nan_equals_itself_or_nothing(using: str, tmp_path: Path) -> None:
    """S2 (trino#21922): the same filters answer for engines that order NaN differently."""
    table = _table(
        tmp_path / "t", {"a.parquet": {"x": [1.0, math.nan]}, "b.parquet": {"x": [1.0]}}, ["x"], using
    )
    assert _kept(table, "x = 'nan'::DOUBLE") == ["a"]
    assert _kept(table, "x = double('NaN')", "spark") == ["a"]
    assert _kept(table, "x = nan()", "trino") in ([], ["a"], ["a", "b"])


@pytest.mark.sampled(2)
def test_i2_files_without_values_or_rows(using: str, tmp_path: Path) -> None:
    """I2 (paimon#9140): only NULLs, no row at all, and no such column."""
    integers: Callable[[list[Any]], Any] = lambda values: pa.array(values, pa.int64())  # noqa: E731
    files = {
        "nulls.parquet": {"x": integers([None, None])},
        "empty.parquet": {"x": integers([])},
        "absent.parquet": {"y": integers([1, 2, 3])},
        "null_type.parquet": {"x": pa.nulls(2)},
        "some.parquet": {"x": integers([5, None])},
    }
    table = _table(tmp_path / "t", files, ["x"], using)
    assert _kept(table, "x = 5") == ["some"]
    assert _kept(table, "x = 6") == []
    assert _kept(table, "x IS NOT DISTINCT FROM 5") == ["some"]
    for everything in (
        "x IS NULL",
        "x <> 5",
        "NOT (x = 5)",
        "x IS NOT DISTINCT FROM NULL",
        "x = 5 OR x IS NULL",
    ):
        assert len(_kept(table, everything)) == len(files), everything


TYPES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()),
    *(pa.decimal128(5, 0), pa.decimal128(9, 2), pa.decimal128(38, 10)),
    *(pa.float32(), pa.float64()),
]


@pytest.mark.sampled(9)
@pytest.mark.parametrize("data_type", TYPES, ids=str)
def test_i1_a_value_is_found_by_literals_of_other_types(
    using: str, tmp_path: Path, data_type: pa.DataType
) -> None:
    """I1 (datafusion#22994, milvus#51140, trino#30544): values looked up in another domain than recorded."""
    make = Decimal if pa.types.is_decimal(data_type) else int
    files: dict[str, Columns] = {}
    for name, values in {"a": [7, 8], "b": [8, 9], "c": [10, None]}.items():
        typed = pa.array([None if value is None else make(value) for value in values], data_type)
        files[f"{name}.parquet"] = {"x": typed}
    table = _table(tmp_path / "t", files, ["x"], using)
    for literal in (
        "7",
        "7.0",
        "7.00",
        "CAST(7 AS BIGINT)",
        "CAST(7 AS DECIMAL(20, 5))",
        "CAST(7 AS TINYINT)",
    ):
        assert _kept(table, f"x = {literal}") == ["a"], literal
        assert _kept(table, f"x IN ({literal}, 10)") == ["a", "c"], literal
        assert _kept(table, f"x IN ({literal}, NULL)") == ["a"], literal
    assert _kept(table, "x = 7e0") == ["a"]
    assert _kept(table, "x = 11") == []
    if not pa.types.is_unsigned_integer(data_type):
        for dialect in ("spark", "trino"):
            assert _kept(table, "x = 7", dialect) == ["a"]


@pytest.mark.sampled(2)
def test_i1_files_of_several_types(using: str, tmp_path: Path) -> None:
    """I1, R7: a widened column keeps its filters."""
    root = tmp_path / "t"
    table = _table(root, {"a.parquet": {"x": pa.array([1, 2], pa.int8())}}, ["x"], using)
    _write(root, {"b.parquet": {"x": [2**40, 2]}, "c.parquet": {"x": pa.array([3], pa.int32())}})
    table.refresh()
    found = [_kept(table, f"x = {value}") for value in (1, 2, 3, 2**40, 4)]
    assert found == [["a"], ["a", "b"], ["c"], ["b"], []]


def test_r7_what_is_rounded_is_not_looked_up(using: str, tmp_path: Path) -> None:
    """R7: a bigint read as double never uses a bloom filter: 2^53 and 2^53 + 1 are one double."""
    root = tmp_path / "t"
    table = _table(root, {"a.parquet": {"x": [2**53 + 1]}}, ["x"], using)
    assert _kept(table, f"x = {2**53}") == []
    _write(root, {"b.parquet": {"x": [0.5]}})
    table.refresh()
    assert _kept(table, f"x = {2**53}") == _kept(table, "x = 0.25") == ["a", "b"]
    with pytest.raises(pruner.PrunerError, match="files hold both int64 and double"):
        table.create_index("anew", on="x", using=using)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_moments_and_text(using: str, tmp_path: Path, unit: str) -> None:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 500_000)
    later = moment + datetime.timedelta(days=1)
    files = {
        f"{name}.parquet": {
            "ts": pa.array([at], arrow.timestamp(unit)),
            "day": [at.date()],
            "s": [f"{name} "],
        }
        for name, at in (("a", moment), ("b", later))
    }
    table = _table(tmp_path / "t", files, ["ts", "day", "s"], using)
    assert _kept(table, "ts = TIMESTAMP '2024-02-29 12:30:00.5'") == ["a"]
    assert _kept(table, "ts = TIMESTAMP '2024-02-29 12:30:00.501'") == []
    for dialect in ("duckdb", "spark"):
        assert _kept(table, "day = DATE '2024-03-01'", dialect) == ["b"]
        assert _kept(table, "day = DATE '2024-03-02'", dialect) == []
        assert _kept(table, "s = 'b '", dialect) == ["b"]
        assert _kept(table, "s = 'b'", dialect) == []


def test_s18_rounded_timestamps_are_not_looked_up(using: str, tmp_path: Path) -> None:
    """S18: Trino reads .9996 as the next second, at its default precision."""
    moment = datetime.datetime(2024, 2, 29, 12, 30, 0, 999_600)
    table = _table(tmp_path / "t", {"a.parquet": {"ts": [moment]}}, ["ts"], using)
    second = "ts = TIMESTAMP '2024-02-29 12:30:01.000'"
    rounding = pruner.Semantics(engine="trino", timestamp_unit="ms")
    assert table.plan(second, semantics=rounding).kept == 1
    assert _kept(table, second) == []


@pytest.mark.sampled(2)
def test_t4_t8_files_that_change_are_open_until_the_refresh(using: str, tmp_path: Path) -> None:
    """T4, T8 (HUDI-8570, lance#8202): a filter belongs to one state of a file, and stays with it in compactions."""
    root = tmp_path / "t"
    table = _table(root, {"a.parquet": {"x": [1, 2]}, "b.parquet": {"x": [3]}}, ["x"], using)
    before = table.snapshot()
    _write(root, {"b.parquet": {"x": [4, 5, 6]}, "c.parquet": {"x": [3]}})
    assert _kept(table, "x = 1") == ["a", "b", "c"]
    table.refresh()
    for _ in range(2):
        assert [_kept(table, f"x = {value}") for value in (1, 3, 4, 9)] == [["a"], ["c"], ["b"], []]
        table.compact()
    assert len(list(Path(table.index_uri.removeprefix("file://")).glob(f"{using}/*.pidx"))) > 1
    assert sorted(Path(file).stem for file in before.plan("x = 3").files) == ["b"]
    table.drop_index("values")
    assert len(_kept(table, "x = 9")) == 3


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t1_filters_hold_what_log_files_brought(
    using: str, hudi_tables: KeptTables, tmp_path: Path, version: int
) -> None:
    """T1 (HUDI-8588, HUDI-6649), R5: the filter of a slice covers the union of its files."""
    path = hudi_tables.path(f"mor_commit_time_v{version}")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("values", on=["id", "seats", "fare"], using=using, options=OPTIONS[using])
    asked = 0
    for entry in table.snapshot().slices:
        assert entry.log_files
        for row in union_rows(path, entry):
            for column in ("id", "seats", "fare"):
                if row[column] is not None:
                    kept = table.plan(f"{column} = {row[column]!r}", dialect="spark").slices
                    assert entry.file_id in {each.file_id for each in kept}
                    asked += 1
    assert asked
    assert table.plan("id = 1000000", dialect="spark").kept == 0


def test_a_part_of_the_partitions(using: str, tmp_path: Path) -> None:
    files = {"p=1/a.parquet": {"x": [1]}, "p=1/b.parquet": {"x": [2]}, "p=2/c.parquet": {"x": [1]}}
    table = _table(tmp_path / "t", files, ["x"], using, where="p = 1")
    assert _kept(table, "x = 2") == ["b", "c"]
    assert _kept(table, "x = 2 AND p = 1") == ["b"]


@pytest.mark.sampled(2)
def test_i4_damaged_segments_keep_their_files(using: str, tmp_path: Path) -> None:
    """I4 (PARQUET-1391), R10: a changed byte costs the index, not the query, and no row."""
    rng = np.random.default_rng(1)
    root = tmp_path / "t"
    values = [rng.integers(0, 2**62, 30_000) for _ in range(20)]
    table = _table(
        root, {f"{number:02}.parquet": {"x": each} for number, each in enumerate(values)}, ["x"], using
    )
    (segment,) = Path(table.index_uri.removeprefix("file://")).glob(f"{using}/*.pidx")
    sound = segment.read_bytes()
    assert len(sound) > 1_000_000
    told = 0
    for position in [*rng.integers(0, len(sound), 12).tolist(), len(sound) - 100]:
        damaged = bytearray(sound)
        damaged[position] ^= 0x10
        segment.write_bytes(damaged)
        opened = pruner.open_table(str(root))
        for number in (0, 7, 19):
            plan = opened.plan(f"x = {values[number][5]}")
            assert f"{number:02}" in [Path(file).stem for file in plan.files]
            assert plan.kept in (1, 20)
            told += plan.kept == 20
            assert (plan.kept == 20) is any("checksum" in note or "parts" in note for note in plan.fallbacks)
    assert told
    segment.write_bytes(sound)
    assert pruner.open_table(str(root)).plan(f"x = {values[3][0]}").kept == 1


def test_filters_are_listed_by_the_keys_of_rfc_37(tmp_path: Path) -> None:
    """RFC-37, MetaIndex/BloomFilter: key = base64_encode(hash64(partition name) + hash128(file path))."""
    files = {"p=1/a.parquet": {"x": [1, 2, 2, None]}, "p=2/a.parquet": {"x": [3]}}
    table = _table(tmp_path / "t", files, ["x"])
    found = {entry.key: (entry.cardinality, entry.positions) for entry in table.inspect("values")}
    partition = xxhash.xxh64(b"p=1", seed=0xFFFFFFFFDABADABA).intdigest().to_bytes(8, "big")
    file = hashlib.md5(b"a.parquet").digest()
    key = base64.b64encode(partition).decode() + base64.b64encode(file).decode()
    assert len(key) == 12 + 24
    assert found[key] == (2, None)
    assert [(entry.counts, entry.file) for entry in table.inspect("values", key)] == [
        ("distinct values", "p=1/a.parquet")
    ]
    assert sorted(found.values()) == [(1, None), (2, None)]
    assert [entry.key for entry in table.inspect("values", key[:12])] == [key]
    flat = _table(tmp_path / "flat", {"a.parquet": {"x": [1]}}, ["x"])
    (entry,) = flat.inspect("values")
    unpartitioned = xxhash.xxh64(b".", seed=0xFFFFFFFFDABADABA).intdigest().to_bytes(8, "big")
    assert entry.key.startswith(base64.b64encode(unpartitioned).decode())


def test_sql_and_options(tmp_path: Path) -> None:
    _write(tmp_path / "t", {"a.parquet": {"x": [1]}, "b.parquet": {"x": [2]}})
    uri = str(tmp_path / "t")
    pruner.sql(f"CREATE INDEX i ON '{uri}' USING bloom_filter (x) OPTIONS (fpp = 0.001)")
    table = pruner.open_table(uri)
    (definition,) = table.indexes()
    assert (definition.using, definition.options) == ("bloom_filter", {"fpp": "0.001"})
    assert _kept(table, "x = 2") == ["b"]
    with pytest.raises(pruner.PrunerError, match="give a share"):
        pruner.sql(f"CREATE INDEX j ON '{uri}' USING bloom_filter (x) OPTIONS (fpp = 1)")
    pruner.sql(f"CREATE INDEX k ON '{uri}' USING bloom_filter (*)")
    assert table.verify() == []
