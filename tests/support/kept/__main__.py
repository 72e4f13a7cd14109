"""Make the tables that are not there yet: `python -m tests.support.kept`, with `--archive` for all machines."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.cases.statement_tables import statement_tables
from tests.support.delta import tables as delta
from tests.support.hudi import archived, merging, nested, payloads, spark_reads, versions, wall_clocks
from tests.support.hudi.tables import hudi_tables
from tests.support.kept.archives import archive_of, pack
from tests.support.kept.archives import archived as names_in
from tests.support.kept.tables import KeptTables
from tools.cache import say
from tools.spark_sessions import small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def all_kept(start_spark: Callable[[], SparkSession]) -> list[KeptTables]:
    """Return the tables of all modules that build any."""
    return [
        *delta.tables(start_spark).parts,
        hudi_tables(start_spark),
        *archived.all_tables(start_spark).parts,
        merging.merging_tables(start_spark),
        nested.nested_tables(start_spark),
        payloads.payload_tables(start_spark),
        versions.tables(start_spark),
        wall_clocks.tables(start_spark),
        statement_tables(start_spark),
    ]


def main() -> None:
    """Make all tables; continuous integration has a core to spare while types are checked."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        start = cache(lambda: small_session(Path(scratch), s3a=True))
        kept = all_kept(start)
        for tables in kept:
            for name in tables.known:
                tables.path(name)
        if start.cache_info().currsize:
            start().stop()
    if "--archive" in sys.argv[1:]:
        _archive(kept)


def _archive(kept: list[KeptTables]) -> None:
    for archive, group in groupby(kept, lambda tables: archive_of(tables.root)):
        parts = list(group)
        wanted = {(tables.root.name, name) for tables in parts for name in tables.known}
        if not archive.is_file() or names_in(archive) != wanted:
            pack([tables.root for tables in parts], archive)
            say(f"{archive.name}: {archive.stat().st_size:,} bytes")
    if spark_reads.pack(tables.root for tables in kept):
        say(f"{spark_reads.ARCHIVE.name}: {spark_reads.ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
