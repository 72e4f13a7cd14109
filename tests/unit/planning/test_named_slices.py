"""Slices of a few partitions, named without reading the others: the plan equals that of masks over all slices."""

from __future__ import annotations

from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pruner.evidence.snapshot import SnapshotEvidence
from pruner.evidence.sources import Sources, of_records
from pruner.expr.binding.bind import bind
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.indexes.registry import evidence_of_values
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.planning.plan import Plan
from pruner.planning.planner import Planner
from pruner.planning.survivors import Survivors
from pruner.schema import Field, TableSchema
from pruner.tables import snapshot as snapshots
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot
from tests.support.running import profiles

DAY, ID = Field(("day",), pa.int64(), partition=True, in_file=False), Field(("id",), pa.int64())
SEMANTICS = Semantics.of("duckdb")

LEAVES = st.one_of(
    st.builds("day {} {}".format, st.sampled_from(["=", "<", ">=", "<>"]), st.integers(0, 9)),
    st.builds("day IN ({}, {})".format, st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from(["day IS NULL", "day IS NOT NULL", "NOT day = 3", "day BETWEEN 2 AND 4", "day = 77"]),
    st.builds("id {} {}".format, st.sampled_from(["=", "<", ">"]), st.integers(0, 50)),
    st.builds("(day = {} OR id = {})".format, st.integers(0, 9), st.integers(0, 50)),
)
PREDICATES = st.lists(LEAVES, min_size=1, max_size=3).map(" AND ".join)
RUNS = st.lists(st.tuples(st.sampled_from([None, *range(10)]), st.integers(64, 300)), min_size=1, max_size=12)
"""Neighboring slices of a day: the same day may occur again later."""


class Made:
    """A made-up table whose slices have one row each."""

    def __init__(self, runs: list[tuple[int | None, int]], seed: int, unsettled: bool) -> None:
        rng = np.random.default_rng(seed)
        days: list[int | None] = list(dict.fromkeys(day for day, _ in runs))
        self.day = [day for day, count in runs for _ in range(count)]
        self.ids = rng.integers(0, 51, len(self.day))
        self.unsettled = (rng.random(len(self.day)) < 0.01) & unsettled
        count = len(self.day)
        known: dict[str, Any] = {
            "partition": pa.array([days.index(day) for day in self.day], pa.int32()),
            "file_id": [f"f{at}" for at in range(count)],
            "base_file": [f"/made/up/{at}" for at in range(count)],
            "base_size": [at + 1 for at in range(count)],
            "unsettled": self.unsettled,
        }
        listed = pa.table(
            [known.get(field.name, pa.nulls(count, field.type)) for field in SLICE_COLUMNS],
            schema=SLICE_COLUMNS,
        )
        paths: Any = pa.array([f"day={day}" for day in days])
        values: dict[tuple[str, ...], pa.Array[Any]] = {("day",): pa.array(days, pa.int64())}
        self.snapshot = Snapshot(
            "made up",
            TableSchema((DAY, ID)),
            listed,
            pa.array([], pa.binary(16)),
            Partitions(paths, values, frozenset([("day",)])),
            "/made/up",
        )

    def sources(self, about: Field) -> Sources:
        if about.path == ID.path:
            evidence = evidence_of_values(pa.array(self.ids), ID)
            assert evidence is not None
            return Sources([of_records("i", "column_stats", evidence)])
        return SnapshotEvidence(self.snapshot, None, SegmentCache(_no_metadata)).sources(about)

    def plan(self, predicate: str) -> Plan:
        bound = bind(parse_predicate(predicate, SEMANTICS), self.snapshot.schema, SEMANTICS)
        return Planner(self.snapshot, self).plan(bound, predicate, SEMANTICS)

    def matching(self, predicate: str) -> list[int]:
        """What must be kept, neither more nor less: slices with a matching row, and unsettled ones."""
        columns: dict[str, Any] = {
            "number": range(len(self.day)),
            "day": pa.array(self.day, pa.int64()),
            "id": self.ids,
        }
        found = duckdb.connect().from_arrow(pa.table(columns)).filter(predicate).project("number").fetchall()
        return sorted({number for (number,) in found} | set(np.flatnonzero(self.unsettled).tolist()))


def _no_metadata() -> MetadataTable:
    raise AssertionError("there is no index")


@pytest.fixture(autouse=True)
def in_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "RUNS_FROM", 1)


@settings(
    max_examples=profiles.examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(runs=RUNS, predicate=PREDICATES, seed=st.integers(0, 99), unsettled=st.booleans())
def test_named_slices_are_those_that_match(
    runs: list[tuple[int | None, int]], predicate: str, seed: int, unsettled: bool
) -> None:
    named = Made(runs, seed, unsettled).plan(predicate)
    assert named.ordinals.tolist() == Made(runs, seed, unsettled).matching(predicate)
    with mock.patch.object(Snapshot, "ordinals_in", return_value=None):
        masked = Made(runs, seed, unsettled).plan(predicate)
    assert named.ordinals.tolist() == masked.ordinals.tolist()
    assert named.steps == masked.steps
    assert named.fallbacks == masked.fallbacks
    assert named.dropped_by.tolist() == masked.dropped_by.tolist()
    assert named.bytes_kept == masked.bytes_kept
    assert named.all_match.tolist() == masked.all_match.tolist()


def test_of_a_few_partitions_no_mask_over_all_slices_is_made() -> None:
    made = Made([(day, 100) for day in range(10)], 1, False)
    with (
        mock.patch.object(Survivors, "keep", side_effect=AssertionError("a mask over all slices")),
        mock.patch.object(Snapshot, "spread", side_effect=AssertionError("a mask over all slices")),
    ):
        plan = made.plan("day IN (3, 7)")
    assert plan.ordinals.tolist() == [*range(300, 400), *range(700, 800)]
    assert set(plan.dropped_by[:300].tolist()) == {1}
    assert made.plan("day < 6").kept == 600
    assert made.plan("day < 6 AND day IN (1, 8)").ordinals.tolist() == list(range(100, 200))
