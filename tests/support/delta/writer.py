"""Writes Delta tables with Spark, and keeps beside each what Spark reads of every version with nothing skipped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.support.kept.archives import HERE
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILE = "__file"
"""The column of a state's rows that names the file which holds the row."""
_TRUTH = "truth"
_TOLD = b"told"


@dataclass(frozen=True)
class DeltaWriter:
    """One table by its place, with a session that has Delta."""

    spark: SparkSession
    path: Path

    @property
    def name(self) -> str:
        """The table as SQL names it."""
        return f"delta.`{self.path}`"

    def sql(self, *statements: str, **places: object) -> DeltaWriter:
        """Run statements; `{t}` is the table."""
        for statement in statements:
            self.spark.sql(statement.format(t=self.name, path=self.path, **places))
        return self

    def create(self, columns: str, rest: str = "", **properties: object) -> DeltaWriter:
        """Make the table with table properties, whose names have `_` for `.`, and `delta.` in front."""
        told = ", ".join(
            f"'delta.{key.replace('_', '.')}' = '{str(value).lower() if isinstance(value, bool) else value}'"
            for key, value in properties.items()
        )
        return self.sql(
            f"CREATE TABLE {self.name} ({columns}) USING delta {rest}"
            + (f" TBLPROPERTIES ({told})" if told else "")
        )

    def fill(self, first: int, end: int, *columns: str, files: int = 1) -> DeltaWriter:
        """Append rows whose values are made of `id`, from `first` on, to some new files."""
        self.spark.sql(
            f"INSERT INTO {self.name} SELECT {', '.join(columns)} FROM range({first}, {end}, 1, {files})"
        )
        return self

    def append(self, frame: DataFrame, **options: str) -> DeltaWriter:
        """Append a frame."""
        frame.write.format("delta").mode("append").options(**options).save(str(self.path))
        return self

    @property
    def log(self) -> Path:
        """The folder of the log."""
        return self.path / "_delta_log"

    def commits(self) -> list[Path]:
        """The commit files, oldest first."""
        return sorted(each for each in self.log.glob("*.json") if each.stem.isdigit())

    @property
    def version(self) -> int:
        """The newest version."""
        return int(self.commits()[-1].stem)

    @contextmanager
    def having(self, **conf: str) -> Iterator[DeltaWriter]:
        """Settings of Delta's own, named without `spark.databricks.delta.` and with `__` for `.`, in a block."""
        with settings(
            self.spark,
            {f"spark.databricks.delta.{key.replace('__', '.')}": value for key, value in conf.items()},
        ):
            yield self

    def forget(self) -> None:
        """Have Delta look at a log anew that was changed by hand."""
        jvm: Any = self.spark._jvm
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@dataclass(frozen=True)
class DeltaState:
    """One version of a kept table, and what Spark says of it."""

    table: str
    root: Path
    version: int
    expected: Path

    @property
    def id(self) -> str:
        """The name of the state."""
        return f"{self.table}@{self.version}"

    def rows(self) -> pa.Table:
        """The rows as Spark reads them; the last column, `__file`, names the file: see `files`."""
        rows = pq.read_table(self.expected).replace_schema_metadata(None)
        files = pc.replace_substring(rows.column(FILE), HERE, str(self._folder))
        return rows.set_column(rows.num_columns - 1, FILE, files)

    def told(self) -> dict[str, Any]:
        """What else Spark says: `schema` (Spark's JSON), `protocol`, `metadata` and `files` (actions of the log)."""
        metadata = pq.read_schema(self.expected).metadata
        return json.loads(metadata[_TOLD].replace(HERE.encode(), str(self._folder).encode()))

    def files(self) -> dict[str, dict[str, Any]]:
        """The live files by path: relative to the table and not encoded, or a whole path for those elsewhere."""
        return {placed(each["path"], self.root): each for each in self.told()["files"]}

    @property
    def _folder(self) -> Path:
        """The folder that the folders of tables lie in, for which `HERE` stands."""
        return self.root.parents[2]


def placed(path: str, root: Path) -> str:
    """A path of the log or a URI as the table's own: relative to its root, or a whole path."""
    found = unquote(urlsplit(path).path) if path.startswith("file:") else unquote(path)
    return found.removeprefix(f"{root}/")


def edit_commit(table: DeltaWriter, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change actions of a commit by hand."""
    file = table.log / f"{version:020}.json"
    actions = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for action in actions:
        change(action)
    file.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    without_checksum(file)


def without_checksum(commit: Path) -> None:
    """Remove the checksums of a commit that was changed."""
    for stale in (commit.with_suffix(".crc"), commit.with_name(f".{commit.name}.crc")):
        stale.unlink(missing_ok=True)


READING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
}
"""A few rows are planned once, and the plan is not described at length."""


@contextmanager
def _reading(spark: SparkSession) -> Iterator[None]:
    """Have Delta read logs cheaply: where Python calls it, it goes by the active session, or the very first one."""
    jvm: Any = spark._jvm
    sessions = jvm.org.apache.spark.sql.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        with settings(spark, READING):
            yield
    finally:
        sessions.setActiveSession(before.get()) if before.isDefined() else sessions.clearActiveSession()


def keep_truth(writer: DeltaWriter, first: int, kept: str) -> None:
    """Write down what Spark reads of each version from `first` on, beside the table.

    `kept` is where the folder of the table will be: places in it are written as they will be then, with `HERE`.
    """
    writer.forget()
    folder = writer.path.with_name(_TRUTH)
    folder.mkdir()
    with _reading(writer.spark):
        for version in range(first, writer.version + 1):
            rows = _state(writer, version, kept)
            pq.write_table(rows, folder / f"{version}.parquet")


def _state(writer: DeltaWriter, version: int, kept: str) -> pa.Table:
    """The rows of one version, with what else is told of it as metadata of their schema."""
    scratch = str(writer.path.parent)
    reader = writer.spark.read.format("delta").option("versionAsOf", version)
    frame = reader.load(str(writer.path))
    snapshot = _snapshot(frame)
    told = {
        "schema": json.loads(frame.schema.json()),
        "protocol": json.loads(snapshot.protocol().json())["protocol"],
        "metadata": json.loads(snapshot.metadata().json())["metaData"],
        "files": [json.loads(each.json())["add"] for each in snapshot.allFiles().collect()],
    }
    # Without a filter nothing is skipped.
    rows = _collected(frame, writer.path)
    named: list[Any] = rows.column(FILE).to_pylist()
    files = [each.replace(scratch, kept) for each in named]
    rows = rows.set_column(rows.num_columns - 1, FILE, pa.array(files, pa.string()))
    return rows.replace_schema_metadata({_TOLD: json.dumps(told).replace(scratch, kept).encode()})


def _snapshot(frame: DataFrame) -> Any:
    """What a frame reads, as Delta has it: another snapshot of the same version would read the log once more."""
    java_frame: Any = frame._jdf
    return java_frame.queryExecution().analyzed().collectLeaves().apply(0).relation().location().getSnapshot()


def _collected(frame: DataFrame, root: Path) -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    named = frame.selectExpr("*", f"_metadata.file_path AS {FILE}")
    batches = named.coalesce(1)._collect_as_arrow()
    schema = to_arrow_schema(named.schema)
    rows = pa.Table.from_batches(batches, schema if not batches else None)
    named_files: list[Any] = rows.column(FILE).to_pylist()
    files = pa.array([placed(each, root) for each in named_files], pa.string())
    return rows.set_column(rows.num_columns - 1, FILE, files)


def states(table: str, root: Path) -> list[DeltaState]:
    """The states of a kept table, oldest first."""
    found = root.with_name(_TRUTH).glob("*.parquet")
    numbers = sorted(int(each.stem) for each in found)
    return [
        DeltaState(table, root, number, root.with_name(_TRUTH) / f"{number}.parquet") for number in numbers
    ]


Builder = Callable[[DeltaWriter], "int | None"]
"""Builds a table, and returns the first version that can still be read, if it is not 0."""
