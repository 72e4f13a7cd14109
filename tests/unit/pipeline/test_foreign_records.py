"""Index types of other distributions whose records no segment can hold: their slices stay uncovered, with a reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

import pruner
from pruner.pipeline.requests import Chunk
from pruner.plugins import load_plugin, may_be_registered
from tests.support.parquet.tables import write_file

INDEX_TYPE = """
import numpy as np
import pyarrow as pa

class Evidence:
    def __init__(self, records, count):
        self.count = count
        self.covered = np.zeros(count, np.bool_)
        self.covered[records.column("__slice").to_numpy()] = True
    def possible(self, leaf, outcome, semantics, at):
        return None

class Odd:
    name, partition, version = "odd", "odd", 1
    def check(self, field, options):
        pass
    def record(self, reader, field, options):
        return pa.table({"n": pa.array([1], pa.int64())})
    def load(self, records, count, field):
        return Evidence(records, count)

class OddRows(Odd):
    record_schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    def record_row(self, reader, field, options):
        return (1, 2)

ODD = Odd()
"""
ROWS = "ODD = OddRows()\nOddRows.record_row = lambda self, reader, field, options: "
TABLE = "Odd.record = lambda self, reader, field, options: "
OTHER = f"""
first = pa.table({{"n": pa.array([1], pa.int64())}})
{TABLE}first if reader.name.endswith("a.parquet") else pa.table({{"m": ["x"]}})
"""
BROKEN = "index type 'odd' cannot be used over x: "
_numbers = count()
Opened = Callable[[str], pruner.Table]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Opens a table of three files after an index type was installed."""
    load_plugin.cache_clear()
    may_be_registered.cache_clear()
    for name, values in (("a", [1, 2]), ("b", [3, 4]), ("c", [5, 6])):
        write_file(tmp_path / "t" / f"{name}.parquet", x=values)

    def put(code: str) -> pruner.Table:
        module = f"odd_index_{next(_numbers)}"
        info = tmp_path / module / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[pruner.indexes]\nodd = {module}:ODD\n")
        (tmp_path / module / f"{module}.py").write_text(f"{INDEX_TYPE}\n{code}\n")
        monkeypatch.syspath_prepend(info.parent)
        return pruner.open_table(tmp_path / "t")

    yield put
    load_plugin.cache_clear()
    may_be_registered.cache_clear()
    for module in [each for each in sys.modules if each.startswith("odd_index_")]:
        del sys.modules[module]


def one_each(slices: pa.Table) -> Iterator[Chunk]:
    """Chunks of one slice."""
    for start in range(slices.num_rows):
        yield Chunk(start, slices.slice(start, 1))


def test_an_index_type_that_is_right_covers_all(opened: Opened) -> None:
    built = opened("").create_index("odd_x", on="x", using="odd")
    assert built is not None
    assert (built.indexed, built.failures) == (3, ())


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (f"{TABLE}None", "it recorded a NoneType and not a pyarrow.Table"),
        (f"{TABLE}[1]", "it recorded a list and not a pyarrow.Table"),
        (
            f"{TABLE}pa.table({{'__slice': [1]}})",
            "its column '__slice' has a name that begins with two underscores",
        ),
        (f"{ROWS}(1,)", "it recorded 1 value and its record_schema has 2 columns"),
        (f"{ROWS}(1, 2, 3)", "it recorded 3 values and its record_schema has 2 columns"),
        (f"{ROWS}[1, 2]", "it recorded a list and not a tuple"),
        (f"{ROWS}('text', 2)", None),
        (f"{ROWS}(object(), 2)", None),
        (
            f"{ROWS}(1, 2)\nOddRows.record_schema = None",
            "its record_schema is a NoneType and not a pyarrow.Schema",
        ),
        (
            f"{TABLE}pa.table({{'n': pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])}})",
            None,
        ),
    ],
)
def test_what_no_segment_holds_is_a_failure_of_each_slice(
    opened: Opened, code: str, reason: str | None
) -> None:
    table = opened(code)
    built = table.create_index("odd_x", on="x", using="odd")
    assert built is not None
    assert (built.indexed, len(built.failures)) == (0, 3)
    for failure in built.failures:
        assert failure.index == "odd_x"
        assert "\n" not in failure.reason
        if reason is not None:
            assert failure.reason == f"{BROKEN}{reason}"
    assert table.plan("x = 3", dialect="duckdb").kept == 3
    table.create_index("x", on="x")
    assert table.plan("x = 3", dialect="duckdb").kept == 1


@pytest.mark.parametrize("chunks", [1, 3])
def test_slices_with_other_columns_than_the_first_are_failures(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, chunks: int
) -> None:
    if chunks > 1:
        monkeypatch.setattr("pruner.pipeline.slices.chunks_of", one_each)
    table = opened(OTHER)
    built = table.create_index("odd_x", on="x", using="odd")
    assert built is not None
    assert built.indexed == 1
    assert {Path(each.slice).name: each.reason for each in built.failures} == dict.fromkeys(
        ("b.parquet", "c.parquet"),
        f"{BROKEN}it recorded the columns m string and of other files n int64",
    )
    assert table.plan("x = 3", dialect="duckdb").kept == 3
