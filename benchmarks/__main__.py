"""`make bench`: everything that is measured; `python -m benchmarks plan scan` runs some parts of it.

Machines are shared and noisy, so contenders run in turn in one process and are reported as a ratio of medians.
"""

from __future__ import annotations

import sys

from rich.console import Console

from benchmarks import peers, rest, service
from benchmarks.building import advisor, bitmaps, build, refresh, speed, store, writers
from benchmarks.duckdb import (
    answers,
    clickbench,
    dashboards,
    many_files,
    native_scan,
    overhead,
    scan,
    tpc,
)
from benchmarks.engines import engine_lookups, hours, spark, spark_dashboards, trino, trino_dashboards
from benchmarks.hudi import commits, listing, merged, opening, own_indexes, own_indexes_in_engines
from benchmarks.peers import head_to_head, over_store
from benchmarks.planning import (
    cold,
    delta,
    evidence,
    expressions,
    filter_layouts,
    iceberg,
    looks,
    lookup,
    plan,
    scale,
)

PARTS = {
    "advisor": advisor.run,
    "answers": answers.run,
    "clickbench": clickbench.run,
    "plan": plan.run,
    "peers": peers.run,
    "evidence": evidence.run,
    "expressions": expressions.run,
    "head-to-head": head_to_head.run,
    "head-to-head-store": over_store.run,
    "hours": hours.run,
    "hudi-listing": listing.run,
    "scale": scale.run,
    "native-scan": native_scan.run,
    "scan": scan.run,
    "build": build.run,
    "build-speed": speed.run,
    "refresh": refresh.run,
    "spark": spark.run,
    "service": service.run,
    "rest": rest.run,
    "bitmap": bitmaps.run,
    "filters": filter_layouts.run,
    "opening": opening.run,
    "overhead": overhead.run,
    "merged": merged.run,
    "commits": commits.run,
    "cold": cold.run,
    "dashboards": dashboards.run,
    "delta": delta.run,
    "dashboards-spark": spark_dashboards.run,
    "dashboards-trino": trino_dashboards.run,
    "iceberg": iceberg.run,
    "looks": looks.run,
    "lookup": lookup.run,
    "lookup-engines": engine_lookups.run,
    "store": store.run,
    "keys": many_files.run,
    "tpc": tpc.run,
    "trino": trino.run,
    "writers": writers.run,
    "zero": own_indexes.run,
    "zero-engines": own_indexes_in_engines.run,
}


def main() -> None:
    """Run the parts that were named, or all."""
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        raise SystemExit(f"no benchmark {unknown[0]!r}: there are {', '.join(PARTS)}")
    console = Console(width=120)
    for name in chosen:
        console.rule(name)
        PARTS[name](console)


if __name__ == "__main__":
    main()
