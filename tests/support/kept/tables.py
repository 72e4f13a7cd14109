"""Tables by name, each with a builder, made once per machine.

Builders write into an empty folder; the result is kept in the cache folder under a key made from their code and the
versions of Spark and of the format's library. Tables whose key an archive of the repository has are unpacked instead
(`archives`), so that Spark starts only for tables whose builders have changed. The kept tables are read-only by
agreement: whatever writes, even an index beside the table, works on a copy (`KeptTables.copy`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.kept.archives import unpack
from tools.cache import appearing, one_at_a_time

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Builder = Callable[["SparkSession", Path], None]


@dataclass(frozen=True)
class KeptTables:
    """The tables of one module; Spark starts only when one of them is neither on this machine nor in an archive.

    Of several processes one makes a table, and the others wait for it: continuous integration builds tables while
    tests run.
    """

    start_spark: Callable[[], SparkSession]
    root: Path
    known: Mapping[str, Builder]

    def path(self, name: str) -> Path:
        """Return the kept table, making it if need be; nothing may be written in or beside it."""
        target = self.root / name / name
        if not target.is_dir():
            unpack(self.root)
        if not target.is_dir():
            spark = self.start_spark()
            with one_at_a_time(self.root / name):
                if not target.is_dir():
                    with appearing(self.root / name) as scratch:
                        self.known[name](spark, scratch / name)
        return target

    def copy(self, name: str, folder: Path) -> Path:
        """Return a copy of the table in `folder`, to write in or beside."""
        target = folder / name
        shutil.copytree(self.path(name), target)
        return target


@dataclass(frozen=True)
class AllTables:
    """Tables of several modules; their names differ."""

    parts: tuple[KeptTables, ...]

    def path(self, name: str) -> Path:
        """The kept table: see `KeptTables.path`."""
        return self._part(name).path(name)

    def copy(self, name: str, folder: Path) -> Path:
        """A copy to write in: see `KeptTables.copy`."""
        return self._part(name).copy(name, folder)

    def _part(self, name: str) -> KeptTables:
        return next(part for part in self.parts if name in part.known)
