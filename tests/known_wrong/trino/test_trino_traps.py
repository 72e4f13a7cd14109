"""Traps through a real Trino and its plugin: the pruned catalog must return what Trino itself reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.trino.tables import Registered, TrinoTables, write_plain
from tools.trino.metastore import HIVE_TYPES

pytestmark = pytest.mark.trino


def _table(
    tables: TrinoTables, root: Path, kind: str, arrow: pa.DataType, files: Sequence[Sequence[object]]
) -> Registered:
    """A table of one column `x`, with a file for each list of values."""
    for number, values in enumerate(files):
        write_plain(root / f"part-{number:02}.parquet", pa.table({"x": pa.array(values, arrow)}))
    return tables.register(root, {"x": kind})


def _check(
    table: Registered, expected: Mapping[str, tuple[int, int]], catalog: str = "hive", **session: str
) -> None:
    """Compare rows and splits of predicates with the expected ones; rows also with the plain catalog's."""
    pruned = "pruned_" + catalog.removeprefix("hive_")
    plain_session = {f"{catalog}.{key}": value for key, value in session.items()}
    pruned_session = {f"{pruned}.{key}": value for key, value in session.items()}
    for where, (rows, splits) in expected.items():
        found = table.run(where, pruned, **pruned_session)
        assert found.rows == table.run(where, catalog, **plain_session).rows == [(rows,)], where
        assert table.splits(found) == splits, where


@pytest.mark.parametrize(("kind", "arrow"), [("float", pa.float32()), ("double", pa.float64())])
def test_s2_nan_compares_false_in_trino(
    trino_tables: TrinoTables, tmp_path: Path, kind: str, arrow: pa.DataType
) -> None:
    """S2 (trino#21922): NaN satisfies `<>` and the NOT of every comparison, and no comparison itself."""
    nan = float("nan")
    table = _table(trino_tables, tmp_path / "lake", kind, arrow, [[1.0, nan], [5.0, 6.0], [nan], [8.0, None]])
    _check(
        table,
        {
            "x <> 1": (5, 4),
            "x <> 8": (5, 3),
            "NOT (x > 2)": (3, 2),
            "NOT (x BETWEEN 5 AND 6)": (4, 3),
            "is_nan(x)": (2, 4),
            "x > 7": (1, 1),
        },
    )


def test_s11_char_compares_with_its_padding(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """S11 (trino#30187): a CHAR is padded with blanks, so a value after a shorter one by bytes can sort before it."""
    files = [["a\t"], ["a"], ["ab"], ["a  "], ["b"]]
    table = _table(trino_tables, tmp_path / "lake", "char(3)", pa.string(), files)
    a, tab = "CAST('a' AS char(3))", "CAST('a\t' AS char(3))"
    _check(table, {f"x < {a}": (1, 3), f"x = {a}": (2, 4), f"x > {a}": (2, 4), f"x = {tab}": (1, 1)})


def test_s18_timestamps_are_rounded_when_they_are_read(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """S18 (hive.timestamp-precision): with milliseconds a stored .9996 equals the next second."""
    second = datetime(2024, 1, 1, 0, 0, 1)
    early = second - timedelta(microseconds=400)
    files = [[early], [second], [second + timedelta(seconds=4)]]
    table = _table(trino_tables, tmp_path / "lake", "timestamp", pa.timestamp("us"), files)
    moment = "TIMESTAMP '2024-01-01 00:00:01'"
    # A value within the rounding of the constant may be less, equal or greater: its file is always read.
    rounded = {
        f"x = {moment}": (2, 2),
        f"x >= {moment}": (3, 3),
        f"x < {moment}": (0, 2),
        f"x > {moment}": (1, 3),
        f"x IN ({moment}, TIMESTAMP '2020-01-01 00:00:00')": (2, 2),
        f"x IS DISTINCT FROM {moment}": (1, 3),
        "x < TIMESTAMP '2024-01-01 00:00:00.99'": (0, 1),
    }
    _check(table, rounded, "hive_millis")
    exact = {f"x = {moment}": (1, 1), f"x >= {moment}": (2, 2), f"x < {moment}": (1, 1)}
    _check(table, exact)
    _check(table, exact, "hive_millis", timestamp_precision="MICROSECONDS")
    _check(table, rounded, timestamp_precision="MILLISECONDS")


def test_timestamps_that_trino_cannot_hold_are_others(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Measured on Trino 483: rounded up, the largest nanosecond (2262) silently becomes one of 1677."""
    files = [[2**63 - 1], [10**15], [-(2**63)]]
    table = _table(trino_tables, tmp_path / "lake", "timestamp", pa.timestamp("ns"), files)
    lost = {
        "x < TIMESTAMP '1700-01-01 00:00:00'": (1, 2),
        "x > TIMESTAMP '2200-01-01 00:00:00'": (1, 2),
        "x < TIMESTAMP '2000-01-01 00:00:00' AND x > TIMESTAMP '1950-01-01 00:00:00'": (1, 3),
    }
    # Trino's own use of statistics would hide it.
    _check(table, lost, "hive_millis", parquet_ignore_statistics="true")


def test_n1_places_with_blanks_and_escapes(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """N1 (trino#18149): blanks, `%`, escapes, other scripts: nothing is decoded between Trino and the keys."""
    root = tmp_path / "a lake, 50% é"
    for number in range(4):
        folder = root / f"p={('x y', 'x%2Fy', 'x%3Dy', 'ü')[number]}"
        write_plain(folder / f"part {number}.parquet", pa.table({"n": pa.array([number], pa.int64())}))
    table = trino_tables.register(root, {"n": "bigint", "p": "string"}, partition_by="p")
    _check(table, {"n = 2": (1, 1), "p = 'x/y'": (1, 1), "p = 'ü' OR n = 0": (2, 2), "n > 7": (0, 1)})


@pytest.mark.parametrize("version", [6, 8, 9])
def test_t14_base_files_are_what_trino_reads(
    trino_tables: TrinoTables, hudi_table: Callable[[str], Path], version: int
) -> None:
    """T14 (Trino 483): a base row that a log file replaced is still a row there, and rows of the log are not."""
    root = hudi_table(f"mor_v{version}")
    some = next(path for path in root.rglob("*.parquet") if ".hoodie" not in path.parts)
    schema = pq.read_schema(some)
    columns = {field.name: HIVE_TYPES[field.type] for field in schema if field.type in HIVE_TYPES}
    table = trino_tables.register(root, columns, partition_by="city", hudi=True)
    _check(table, {"fare = 3": (1, 3), "fare = 1003": (0, 1), "id > 1000": (0, 1)}, "hudi")
