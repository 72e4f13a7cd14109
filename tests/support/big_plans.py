"""What planning finds over a million slices by a thousand clauses, without files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pruner.expr.semantics import Semantics
from pruner.planning.report import FunnelStep, PlanFacts
from pruner.planning.survivors import Survivors
from pruner.schema import TableSchema
from pruner.tables.snapshot import Partitions, Snapshot


def big_facts(count: int = 1_000_000, clauses: int = 1000) -> PlanFacts:
    """The largest plan: long clauses with signs that HTML escapes, and as many notes as there can be."""
    rng = np.random.default_rng(7)
    survivors, steps = Survivors(count), []
    for number in range(1, clauses + 1):
        wanted = rng.random(survivors.left if survivors.at is not None else count) < 0.97
        considered = survivors.left
        survivors.keep(wanted, number)
        clause = f"column_{number} = '{'<&>' * 2000}'"
        steps.append(FunnelStep(clause, "stats", "column_stats", considered, considered - survivors.left, 0))
    fallbacks = tuple(f"reason {number} {'<' * 200}" for number in range(10_000))
    return PlanFacts(
        _snapshot(count),
        "<&>" * 10**6,
        Semantics.of("duckdb"),
        survivors,
        lambda: tuple(steps),
        fallbacks,
        0.1,
    )


def _snapshot(count: int) -> Snapshot:
    """A snapshot of as many slices with long names."""
    names = pa.array([f"s3://lake/{'x' * 80}/{number:07}.parquet" for number in range(count)])
    nothing = pa.nulls(count, pa.string())
    columns = pa.table(
        {
            "partition": pa.array(np.zeros(count, np.int32)),
            "file_id": names,
            "base_file": names,
            "base_size": pa.array(np.full(count, 1000, np.int64)),
            "base_version": nothing,
            "base_instant": nothing,
            "log_files": pa.nulls(count, pa.list_(pa.string())),
            "log_size": pa.nulls(count, pa.int64()),
            "unsettled": pa.array(np.zeros(count, np.bool_)),
        }
    )
    keys = pa.nulls(count, pa.binary(16))
    return Snapshot("id", TableSchema(()), columns, keys, Partitions(pa.array([""])), "s3://lake")
