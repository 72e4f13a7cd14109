"""Plans from made-up expression indexes of Hudi's: which functions are used, and for which files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pruner
from tests.support.hudi.made_up.files import SCHEMA, SyntheticTable
from tests.support.hudi.made_up.keys import SyntheticKeys
from tests.support.hudi.made_up.metadata import Stat, SyntheticMetadata
from tests.support.running.profiles import examples
from tests.unit.tables.hudi.test_hfile import MUTATIONS, mutated

INDEX = "expr_index_month_of_day"
MONTHS = ((1, 3), (3, 6), (7, 9), (10, 12))
"""The months of the days in the four files; the files hold days of several years."""

EVERYTHING = [0, 1, 2, 3]
_DATE, _INT = 12, 3
_TYPES = {"day": {"type": "int", "logicalType": "date"}, "name": "string"}
_TYPES["at"] = {"type": "long", "logicalType": "timestamp-micros"}


class Derived:
    """A table of four files with a column `day`, and an index over a function of one of its columns."""

    def __init__(
        self,
        root: Path,
        *,
        function: str = "month",
        column: str = "day",
        using: str = "column_stats",
        years: tuple[int, int] = (2001, 2024),
        partitions: str = f"column_stats,{INDEX}",
    ) -> None:
        more = [{"name": name, "type": ["null", type_], "default": None} for name, type_ in _TYPES.items()]
        self.table = SyntheticTable(root, False, {**SCHEMA, "fields": [*SCHEMA["fields"], *more]})
        self.table.insert(["city=a", "city=a", "city=b", "city=b"])
        self.groups = list(self.table.groups.values())
        self.metadata = SyntheticMetadata(root, partitions=f"files,{partitions}")
        first, last = (_number(year, 1, 1) for year in years)
        self.metadata.create([self.stat(n, first, last, _DATE) for n in range(4)])
        stats = [self.stat(number, *months, _INT, column) for number, months in enumerate(MONTHS)]
        self.metadata.write(INDEX, "expr-index", stats)
        SyntheticKeys(self.metadata).define(INDEX, column, function=function, using=using)

    def stat(self, number: int, low: int, high: int, ordinal: int, column: str = "day") -> Stat:
        group = self.groups[number]
        return Stat(group.partition, group.base, column, low, high, values=10, ordinal=ordinal)

    def plan(self, predicate: str, dialect: str = "duckdb", **options: Any) -> pruner.Plan:
        return pruner.open_table(str(self.table.root), **options).plan(predicate, dialect=dialect)

    def kept(self, predicate: str, dialect: str = "duckdb") -> list[int]:
        order = {group.file_id: number for number, group in enumerate(self.groups)}
        return sorted(order[entry.file_id] for entry in self.plan(predicate, dialect).slices)

    def use(self) -> str:
        return pruner.open_table(str(self.table.root)).status().hudi_indexes[INDEX]


def _number(*day: int) -> int:
    return (date(*day) - date(1970, 1, 1)).days


@pytest.fixture
def derived(tmp_path: Path) -> Derived:
    """With an index over `month(day)`."""
    return Derived(tmp_path / "table")


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("month(day) = 2", [0]),
        ("month(day) = 3", [0, 1]),
        ("month(day) IN (2, 11)", [0, 3]),
        ("month(day) > 9", [3]),
        ("NOT month(day) > 9", [0, 1, 2]),
        ("month(day) = 13", []),
        ("month(day) IS NULL", []),
        ("month(day) = 2 OR id = 5", EVERYTHING),
        ("day(day) = 2", EVERYTHING),
    ],
)
@pytest.mark.parametrize("dialect", ["duckdb", "spark", "trino"])
def test_months_are_asked_by_every_engine(
    predicate: str, expected: Sequence[int], dialect: str, derived: Derived
) -> None:
    assert derived.kept(predicate, dialect) == expected


def test_reports_name_the_index(derived: Derived) -> None:
    assert "hudi.expr_index_month_of_day" in derived.plan("month(day) = 2").explain()
    assert derived.use() == "used for month(day)"
    assert derived.plan("month(day) = 2", hudi_indexes=False).kept == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize("years", [(1899, 2024), (1001, 2024)])
def test_days_from_before_1900_keep_their_files(years: tuple[int, int], tmp_path: Path) -> None:
    """Engines were not compared there: the statistics of the column must show that there are none."""
    derived = Derived(tmp_path / "table", years=years)
    assert derived.kept("month(day) = 2") == EVERYTHING
    assert (
        "nothing shows that their values lie where engines agree" in derived.plan("month(day) = 2").to_json()
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"function": "upper", "column": "name"}, "nor the values of upper(name)"),
        ({"function": "hour", "column": "at"}, "neither the time zone"),
        ({"function": "month", "column": "at"}, "neither the time zone"),
        ({"function": "date_format", "column": "day"}, "date_format"),
        ({"function": "from_unixtime", "column": "id"}, "from_unixtime"),
        ({"function": "month", "column": "gone"}, "gone"),
        ({"using": "bloom_filters"}, "of the kind bloom_filters"),
        ({"partitions": INDEX}, "without column statistics"),
    ],
)
def test_other_functions_are_named_with_the_reason(
    how: Mapping[str, str], reason: str, tmp_path: Path
) -> None:
    derived = Derived(tmp_path / "table", **how)  # pyright: ignore[reportArgumentType]
    assert derived.use().startswith("not used: ")
    assert reason in derived.use()
    assert derived.kept("month(day) = 2") == EVERYTHING


def test_functions_with_arguments_are_not_asked(derived: Derived) -> None:
    path = derived.table.root / ".hoodie" / ".index_defs" / "index.json"
    found = json.loads(path.read_text())
    found["indexDefinitions"][INDEX]["indexOptions"] = {"expr": "month", "format": "yyyy"}
    path.write_text(json.dumps(found))
    assert "has arguments" in derived.use()
    path.write_text("{")
    assert "damaged" in derived.use()
    assert derived.kept("month(day) = 2") == EVERYTHING


def test_files_of_other_snapshots_are_not_spoken_of(derived: Derived) -> None:
    derived.table.update([(derived.groups[0].partition, derived.groups[0].file_id)])
    assert derived.kept("month(day) = 8") == [0, 2]


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 1), mutations=MUTATIONS)
def test_no_damage_loses_a_row(
    place: int, mutations: Sequence[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    derived = Derived(tmp_path_factory.mktemp("damaged") / "table")
    target = sorted((derived.metadata.root / INDEX).glob("*.hfile"))[place]
    target.write_bytes(mutated(target.read_bytes(), mutations))
    assert 1 in derived.kept("month(day) = 4")
