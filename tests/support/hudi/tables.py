"""The real Hudi tables that tests read: each has a name, a builder, and is built once per machine.

Builders write into an empty folder; the result is kept in the cache folder under a key made from this code
and the versions of Spark and Hudi, so a second run starts no Java machine for them. The kept tables are
read-only by agreement: whatever writes, even an index beside the table, works on a copy (`HudiTables.copy`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi import writer as hudi_writer
from tools import spark as spark_tool
from tools.cache import appearing, cache_dir, fingerprint, one_at_a_time
from tools.jars import HUDI_BUNDLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Builder = Callable[["SparkSession", Path], None]


def builders() -> dict[str, Builder]:
    """Return the builders of all fixture tables by name."""
    from tests.support.hudi import catalog as hudi_catalog

    return hudi_catalog.BUILDERS


@dataclass(frozen=True)
class HudiTables:
    """The fixture tables; Spark starts only when one of them has not been built on this machine yet.

    Of several processes one builds a table, and the others wait for it: continuous integration builds tables while
    tests run.
    """

    start_spark: Callable[[], SparkSession]
    root: Path = field(default_factory=lambda: cache_dir() / f"hudi-tables-{_key()}")
    known: Mapping[str, Builder] = field(default_factory=builders)

    def path(self, name: str) -> Path:
        """Return the kept table, building it if need be; nothing may be written in or beside it."""
        target = self.root / name / name
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

    parts: tuple[HudiTables, ...]

    def path(self, name: str) -> Path:
        """The kept table: see `HudiTables.path`."""
        return self._part(name).path(name)

    def copy(self, name: str, folder: Path) -> Path:
        """A copy to write in: see `HudiTables.copy`."""
        return self._part(name).copy(name, folder)

    def _part(self, name: str) -> HudiTables:
        return next(part for part in self.parts if name in part.known)


def table_names(pattern: str = ".*") -> list[str]:
    """Return the names of the fixture tables that a regular expression matches, to parametrise tests."""
    return [name for name in builders() if re.fullmatch(pattern, name)]


def _key() -> str:
    """Return a key that changes whenever the tables could come out differently."""
    here = Path(__file__)
    sources = [here.with_name("catalog.py"), Path(hudi_writer.__file__), Path(hudi_timeline.__file__)]
    return fingerprint(*sources, Path(spark_tool.__file__), HUDI_BUNDLE.sha256, version("pyspark"))
