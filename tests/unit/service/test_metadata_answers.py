"""`POST /v1/answers`: whole answers from metadata, thresholds of first rows, and what is declined."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.unit.service.conftest import FILES, ROWS, Client


def _asked(predicate: str = "n >= 0", **more: Any) -> dict[str, Any]:
    return {
        "table": "numbers",
        "session": {"engine": "trino", "version": "483", "zone": "UTC"},
        "predicate": {"form": "sql", "text": predicate},
        **more,
    }


def _aggregates(*asked: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [
        {"function": function, "column": None if column is None else [column]} for function, column in asked
    ]


EVERY = (("count", None), ("count", "n"), ("min", "n"), ("max", "n"))


@pytest.mark.parametrize(
    ("predicate", "values"),
    [
        ("n >= 0", [200, 200, 0, 199]),
        ("n >= 100", [100, 100, 100, 199]),
        ("n < 0", [0, 0, None, None]),
        # One file matches in part, and would have to be read.
        ("n >= 105", None),
        # A part of the predicate is Trino's own.
        ("n >= 100 AND my_function(n)", None),
    ],
)
def test_aggregates_are_answered_whole_or_not(client: Client, predicate: str, values: Any) -> None:
    answer = client.post("/v1/answers", _asked(predicate, aggregates=_aggregates(*EVERY)))
    assert answer.status == 200, answer.json
    found = answer.json["values"]
    assert (None if found is None else [each["value"] for each in found]) == values
    assert answer.json["threshold"] is None


@pytest.mark.parametrize(
    ("predicate", "rows", "descending", "threshold"),
    [
        ("n >= 0", 1, True, 190),
        ("n >= 0", 10, True, 190),
        ("n >= 0", 11, True, 180),
        ("n >= 0", 10, False, 9),
        ("n >= 0", 190, True, 10),
        # More rows need all files.
        ("n >= 0", 191, True, None),
        ("n >= 0", 201, True, None),
        # Five rows of the first file match, and it is unknown which.
        ("n >= 105", 90, True, 110),
        ("n >= 105", 91, True, None),
        ("n < 0", 1, True, None),
        ("n >= 0 AND my_function(n)", 1, True, None),
    ],
)
def test_so_many_rows_reach_a_threshold(
    client: Client, predicate: str, rows: int, descending: bool, threshold: int | None
) -> None:
    first = {"column": ["n"], "rows": rows, "descending": descending}
    answer = client.post("/v1/answers", _asked(predicate, first=first)).json
    assert answer["values"] is None
    assert answer["threshold"] == (None if threshold is None else {"type": "int64", "value": threshold})


def test_rows_without_a_value_reach_no_threshold(client: Client, lake: Path) -> None:
    """NULL is counted apart: five of the file's ten rows have a value."""
    pq.write_table(pa.table({"n": [None] * 5 + [1000] * 5}), lake / "part-99.parquet")
    pruner.open_table(lake).refresh()

    def threshold(rows: int) -> Any:
        first = {"column": ["n"], "rows": rows, "descending": True}
        found = client.post("/v1/answers", _asked("1 = 1", first=first)).json["threshold"]
        return None if found is None else found["value"]

    assert [threshold(5), threshold(6)] == [1000, 190]
    counted = client.post("/v1/answers", _asked("1 = 1", aggregates=_aggregates(*EVERY))).json
    assert [each["value"] for each in counted["values"]] == [FILES * ROWS + 10, FILES * ROWS + 5, 0, 1000]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"first": {"column": ["n"], "rows": 0}}, 400),
        ({"first": {"column": [], "rows": 1}}, 400),
        ({"aggregates": [{"function": "sum", "column": ["n"]}]}, 400),
        ({"aggregates": [{"function": "max", "column": ["m"]}]}, 422),
        ({"aggregates": _aggregates(("count", None)), "limit": 3}, 400),
        ({"aggregates": _aggregates(*[("count", None)] * 257)}, 400),
        ({"table": "others", "aggregates": _aggregates(("count", None))}, 404),
        ({"as_of": "nonsense", "aggregates": _aggregates(("count", None))}, 503),
    ],
)
def test_what_cannot_be_answered_is_refused(client: Client, more: dict[str, Any], status: int) -> None:
    assert client.post("/v1/answers", _asked(**more)).status == status


def test_values_have_their_types(client: Client, lake: Path) -> None:
    """Dates are days and timestamps in the unit of the type; floating point is declined, and so are decimals."""
    for file in lake.glob("*.parquet"):
        file.unlink()
    for start in (0, 5):
        pq.write_table(
            pa.table(
                {
                    "n": [1, 2],
                    "d": pa.array([start, start + 1], pa.int32()).view(pa.date32()),
                    "t": pa.array([start, start + 1], pa.timestamp("us", "UTC")),
                    "s": ["a\"'", "ß"],
                    "b": [True, False],
                    "f": [0.5, 1.5],
                }
            ),
            lake / f"typed-{start}.parquet",
        )
    table = pruner.open_table(lake)
    table.create_index("all", on="*")
    table.create_index("texts", on="s", using="bitmap")

    def values(*asked: tuple[str, str | None]) -> Any:
        found = client.post("/v1/answers", _asked("1 = 1", aggregates=_aggregates(*asked))).json["values"]
        return None if found is None else [(each["type"], each["value"]) for each in found]

    assert values(("max", "d"), ("max", "t"), ("max", "s"), ("min", "b")) == [
        ("date32[day]", 6),
        ("timestamp[us, tz=UTC]", 6),
        ("string", "ß"),
        ("bool", False),
    ]
    assert values(("max", "f")) is None
    assert values(("max", None)) is None
