"""Hudi tables whose version, layout or timeline changed on the way: each is a short history, a word for a step.

Every step but the first writes over rows of two file groups, so that each instant has values of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tests.support.hudi import archived as hudi_archived
from tests.support.hudi import catalog as hudi_catalog
from tests.support.hudi import histories as hudi_histories
from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi.archived import ARCHIVED
from tests.support.hudi.catalog import CONCURRENT
from tests.support.hudi.histories import ALONE
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.timeline import complete_last, completed, make_inflight, table_version
from tests.support.hudi.writer import (
    CLEAN,
    COMPACT,
    QUIET,
    SCHEDULE_COMPACTION,
    HudiWriter,
    TableType,
    TableVersion,
    trips,
)
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WRITES = ("commit", "deltacommit", "replacecommit")
HELD = "held.json"
_BY_NAME = {6: "SIX", 8: "EIGHT", 9: "NINE"}
_VERSIONS_KEPT = {
    **CLEAN,
    "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
    "hoodie.clean.fileversions.retained": "2",
}
_AGED = {**ARCHIVED, **_VERSIONS_KEPT, "hoodie.clean.fileversions.retained": "1"}


@dataclass
class History:
    """One table, which `run` takes from step to step."""

    table: HudiWriter
    _ts: int = 1
    _ids: int = 0
    _saved: str = ""
    _steps: dict[str, Callable[[], None]] = field(init=False)

    def __post_init__(self) -> None:
        upsert = self._upsert
        self._steps = {
            "insert": self._insert,
            "update": upsert,
            "compact": partial(upsert, COMPACT),
            "plan": partial(upsert, SCHEDULE_COMPACTION),
            "archive": partial(upsert, ARCHIVED),
            "clean": partial(upsert, CLEAN),
            "trim": partial(upsert, _VERSIONS_KEPT),
            "age": partial(upsert, _AGED),
            "delete": lambda: self.table.delete(self._rows([self._ts % 4])),
            "overwrite": lambda: self.table.overwrite_partitions(self._rows([0, 2])),
            "die": lambda: cast("None", make_inflight(self.table.path)),
            "late": self._late,
            "save": self._save,
            "restore": lambda: self._call("rollback_to_savepoint", f"instant_time => '{self._saved}'"),
            **{str(version): partial(self._change, version) for version in hudi_catalog.VERSIONS},
        }

    def run(self, steps: str) -> None:
        """Do some steps: names of them, or the version that the table is to have."""
        for step in steps.split():
            self._ts += 1
            self._steps[step]()

    def _rows(self, ids: list[int]) -> DataFrame:
        return trips(self.table.spark, ids, ts=self._ts, fare=100 * self._ts, cities=("a", "b"))

    def _insert(self) -> None:
        self.table.insert(self._rows(list(range(self._ids, self._ids + 4))))
        self._ids += 4

    def _upsert(self, also: Mapping[str, str] | None = None) -> None:
        self.table.upsert(self._rows([self._ts % 4, self._ts % 4 + 1]), also=also)

    def _late(self) -> None:
        """A delta commit that was requested before a compaction and completed after it."""
        quiet, self.table = self.table, replace(self.table, options=CONCURRENT)
        self._upsert()
        late = completed(self.table.path)[-1]
        content = late.file.read_bytes()
        make_inflight(self.table.path, late)
        self._ts += 1
        self._upsert(COMPACT)
        complete_last(self.table.path, late, content)
        self.table = quiet

    def _save(self) -> None:
        self._saved = completed(self.table.path, "commit", "deltacommit")[-1].requested
        self._call("create_savepoint", f"commit_time => '{self._saved}'")

    def _change(self, version: TableVersion) -> None:
        verb = "upgrade" if version > self.table.version else "downgrade"
        self._call(f"{verb}_table", f"to_version => '{_BY_NAME[version]}'")
        assert table_version(self.table.path) == version
        self.table = replace(self.table, version=version)

    def _call(self, procedure: str, argument: str) -> None:
        spark, path = self.table.spark, self.table.path
        name = f"versions_{path.name}"
        settings = {**QUIET, **ALONE, "hoodie.metadata.enable": str(self.table.metadata).lower()}
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path.as_uri()}'")
            spark.sql(f"CALL {procedure}(table => '{name}', {argument})").collect()
        finally:
            spark.sql(f"DROP TABLE IF EXISTS {name}")
            for key in settings:
                spark.conf.unset(key)


def _build(
    spark: SparkSession,
    path: Path,
    *,
    kind: TableType,
    version: TableVersion,
    steps: str,
    metadata: bool = False,
) -> None:
    History(HudiWriter(spark, path, version, kind, metadata=metadata)).run(steps)


def _aged(spark: SparkSession, path: Path, *, kind: TableType, version: TableVersion, steps: str) -> None:
    """A table with what it held at each instant when that was the newest, beside it."""
    history = History(HudiWriter(spark, path, version, kind))
    held: dict[str, list[list[int]]] = {}
    for step in steps.split():
        history.run(step)
        rows = spark.read.format("hudi").load(path.as_uri()).select("id", "ts").collect()
        newest = max(each.requested for each in completed(path, *WRITES))
        held[newest] = sorted([row["id"], row["ts"]] for row in rows)
    (path.parent / HELD).write_text(json.dumps(held))


_cow = partial(_build, kind="COPY_ON_WRITE")
_mor = partial(_build, kind="MERGE_ON_READ")
BUILDERS: dict[str, Builder] = {
    "cow_down_and_up": partial(_cow, version=9, steps="insert update 8 overwrite 6 update 9"),
    "cow_cleaned_then_down": partial(_cow, version=9, steps="insert update clean update 6 update"),
    "cow_trimmed": partial(_cow, version=6, steps="insert update trim update 8 trim update"),
    "mor_down": partial(_mor, version=9, steps="insert update update 6 update compact"),
    "mor_down_with_late_write": partial(_mor, version=8, steps="insert late update 6 update"),
    "mor_down_and_up": partial(_mor, version=9, steps="insert update compact update 6 delete 9 update"),
    "mor_up_and_down": partial(_mor, version=6, steps="insert plan update 9 update 6 update"),
    "mor_archived_down": partial(
        _mor, version=9, steps="insert archive archive archive archive archive 6 update", metadata=True
    ),
    "mor_restored_down": partial(
        _mor, version=9, steps="insert update save update 6 update restore update compact"
    ),
    "mor_died_down": partial(_mor, version=9, steps="insert update update die 6 update"),
}
_STEPS = "insert overwrite age save age age age age age age age"
AGED: dict[str, Builder] = {
    "cow_aged": partial(_aged, kind="COPY_ON_WRITE", version=6, steps=_STEPS),
}
"""Tables whose cleaner keeps versions of files, and whose cleans were archived. A savepoint keeps the commits after it
from being archived: with them, Hudi keeps the cleans as well from version 8 on.
"""


def tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the tables, kept on this machine."""
    return kept_hudi_tables(
        "hudi-versions",
        start_spark,
        {**BUILDERS, **AGED},
        __file__,
        hudi_archived,
        hudi_catalog,
        hudi_histories,
        hudi_timeline,
    )
