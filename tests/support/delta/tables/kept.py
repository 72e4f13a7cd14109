"""The tables as they are kept on this machine, each beside what Spark reads of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.delta import writer as delta_writer
from tests.support.delta.tables import layout, log, names, rows, types  # noqa: F401 - each adds its tables
from tests.support.delta.tables.registry import BUILDERS, PLAIN, PLAIN_ROW, VECTORS
from tests.support.delta.writer import Builder, DeltaState, DeltaWriter, keep_truth, states
from tests.support.kept.archives import HERE
from tests.support.kept.tables import AllTables, KeptTables
from tools import spark_sessions
from tools.cache import cache_dir, fingerprint
from tools.jars import DELTA_JARS
from tools.spark_sessions import delta_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tables(start_spark: Callable[[], SparkSession]) -> AllTables:
    """Return the tables, kept on this machine; Spark starts only when one of them is not there yet.

    Each has a folder of its own, so that another builder makes its own table anew alone.
    """
    session = cache(lambda: delta_session(start_spark()))
    parts: list[KeptTables] = []
    for name, build in BUILDERS.items():
        root = cache_dir() / f"delta-tables-{_key(build)}"
        parts.append(KeptTables(session, root, {name: partial(_built, build, root / name)}))
    return AllTables(tuple(parts))


def delta_states(tables: AllTables, name: str) -> list[DeltaState]:
    """Return the states of a table that can be read, oldest first; with what Spark reads of each."""
    return states(name, tables.path(name))


def _built(build: Builder, kept: Path, spark: SparkSession, path: Path) -> None:
    """Build a table at `path` that will be kept in the folder `kept`, which is what clones of others say then."""
    writer = DeltaWriter(spark, path)
    keep_truth(writer, build(writer) or 0, f"{HERE}/{kept.parent.name}/{kept.name}")
    scratch = path.parent
    for commit in scratch.glob("*/_delta_log/*.json"):
        text = commit.read_text(encoding="utf-8")
        if scratch.name in text:
            commit.write_text(text.replace(str(scratch), str(kept)), encoding="utf-8")
            # A clone begins with a checkpoint, which has the places as well, and so have checksums.
            log = commit.parent
            for stale in (
                *log.glob("*.checkpoint*"),
                *log.glob("*.crc"),
                *log.glob(".*.crc"),
                log / "_last_checkpoint",
            ):
                stale.unlink(missing_ok=True)


def _key(build: Builder) -> str:
    """Return a key that changes whenever a table could come out differently."""
    shared = (rows._changes, log._checkpointed, log._source, log.compact_log, types._builder)
    texts = [inspect.getsource(each) for each in (build, *shared)]
    values = repr((PLAIN, PLAIN_ROW, VECTORS, layout.TEXTS))
    sources = [Path(delta_writer.__file__), Path(spark_sessions.__file__)]
    return fingerprint(*texts, values, *sources, *(jar.sha256 for jar in DELTA_JARS), installed("pyspark"))
