"""The real Hudi tables that tests read by name (`catalog`), and how modules of such tables are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi import writer as hudi_writer
from tests.support.kept.tables import Builder, KeptTables
from tools import spark as spark_tool
from tools.cache import cache_dir, fingerprint
from tools.jars import HUDI_BUNDLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def builders() -> dict[str, Builder]:
    """Return the builders of all fixture tables by name."""
    from tests.support.hudi import catalog as hudi_catalog

    return hudi_catalog.BUILDERS


def hudi_tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the fixture tables, kept on this machine."""
    return kept_hudi_tables(
        "hudi-tables", start_spark, builders(), Path(__file__).with_name("catalog.py"), hudi_timeline
    )


def kept_hudi_tables(
    group: str,
    start_spark: Callable[[], SparkSession],
    known: Mapping[str, Builder],
    *sources: Path | str | ModuleType,
) -> KeptTables:
    """Return tables whose key changes whenever they could come out differently.

    `sources` are the files and modules that the builders are written in, beside those of the writer and of Spark.
    """
    files = (
        Path(str(each.__file__ if isinstance(each, ModuleType) else each))
        for each in (*sources, hudi_writer, spark_tool)
    )
    key = fingerprint(*files, HUDI_BUNDLE.sha256, version("pyspark"))
    return KeptTables(start_spark, cache_dir() / f"{group}-{key}", known)


def table_names(pattern: str = ".*") -> list[str]:
    """Return the names of the fixture tables that a regular expression matches, to parametrise tests."""
    return [name for name in builders() if re.fullmatch(pattern, name)]
