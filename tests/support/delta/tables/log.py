"""What the log holds beside plain commits: checkpoints, compaction, clones, and versions that came back."""

from __future__ import annotations

import json
from typing import Any

from tests.support.delta.tables.registry import PLAIN, PLAIN_ROW, VECTORS
from tests.support.delta.tables.registry import table as _table
from tests.support.delta.writer import DeltaWriter


def _checkpointed(table: DeltaWriter, **properties: object) -> None:
    table.create(f"{PLAIN}, half INT", "PARTITIONED BY (half)", checkpointInterval=3, **VECTORS, **properties)
    row = (*PLAIN_ROW, "CAST(id % 2 AS INT)")
    table.fill(0, 8, *row)
    table.sql("DELETE FROM {t} WHERE id = 3")
    table.fill(8, 16, *row)
    table.sql("DELETE FROM {t} WHERE id = 4")
    table.fill(16, 20, *row)


@_table
def checkpoints(table: DeltaWriter) -> None:
    """Checkpoints of one file, with statistics as JSON."""
    _checkpointed(table)


@_table
def checkpoints_typed(table: DeltaWriter) -> None:
    """Statistics as columns of the checkpoint, and not as JSON."""
    _checkpointed(table, checkpoint_writeStatsAsStruct=True, checkpoint_writeStatsAsJson=False)


@_table
def checkpoints_in_parts(table: DeltaWriter) -> None:
    """Checkpoints of several files."""
    with table.having(checkpoint__partSize="2"):
        _checkpointed(table)


@_table
def checkpoints_v2_json(table: DeltaWriter) -> None:
    """Checkpoints of the second kind, their head as JSON, with sidecars."""
    with table.having(checkpointV2__topLevelFileFormat="json", checkpoint__partSize="2"):
        _checkpointed(table, checkpointPolicy="v2")


@_table
def checkpoints_v2_parquet(table: DeltaWriter) -> None:
    """The same with the head as Parquet, and statistics as columns."""
    with table.having(checkpointV2__topLevelFileFormat="parquet"):
        _checkpointed(table, checkpointPolicy="v2", checkpoint_writeStatsAsStruct=True)


@_table
def truncated_log(table: DeltaWriter) -> int:
    """The commits before the last checkpoint are gone, and so is `_last_checkpoint`."""
    _checkpointed(table)
    for commit in table.commits()[:3]:
        for each in table.log.glob(f"*{commit.stem}*"):
            if "checkpoint" not in each.name:
                each.unlink()
    (table.log / "_last_checkpoint").unlink()
    return 3


@_table
def compacted_log(table: DeltaWriter) -> None:
    """A file that joins the actions of some commits, as the protocol describes it."""
    table.create(PLAIN, **VECTORS)
    table.fill(0, 10, *PLAIN_ROW)
    table.fill(10, 20, *PLAIN_ROW)
    table.sql("DELETE FROM {t} WHERE id = 3", "OPTIMIZE {t}")
    table.fill(20, 24, *PLAIN_ROW)
    compact_log(table, 1, 4)


def compact_log(table: DeltaWriter, first: int, last: int) -> None:
    """Write a compaction of some commits: of each file its last action, and what else there is by its kind."""
    files: dict[tuple[str, str], dict[str, Any]] = {}
    others: dict[str, dict[str, Any]] = {}
    for commit in table.commits()[first : last + 1]:
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            (kind, content), *_ = action.items()
            if kind in ("add", "remove"):
                vector = content.get("deletionVector") or {}
                content["dataChange"] = False
                unique = f"{vector.get('pathOrInlineDv')}@{vector.get('offset')}"
                files[content["path"], unique] = action
            elif kind in ("protocol", "metaData", "txn", "domainMetadata"):
                others[kind + str(content.get("appId", content.get("domain", "")))] = action
    lines = [json.dumps(action) for action in (*others.values(), *files.values())]
    (table.log / f"{first:020}.{last:020}.compacted.json").write_text("\n".join(lines) + "\n")


@_table
def commit_times(table: DeltaWriter) -> None:
    """Times of the commits in the commits, switched on later."""
    table.create(PLAIN)
    table.fill(0, 3, *PLAIN_ROW)
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    table.fill(3, 6, *PLAIN_ROW)


@_table
def tracked(table: DeltaWriter) -> None:
    """Row tracking, which gives files ids and rows hidden columns."""
    table.create(PLAIN, enableRowTracking=True, **VECTORS)
    table.fill(0, 10, *PLAIN_ROW)
    table.sql("UPDATE {t} SET name = 'u' WHERE id = 2", "OPTIMIZE {t}", "DELETE FROM {t} WHERE id = 5")


@_table
def converted(table: DeltaWriter) -> None:
    """Plain Parquet files that were made a table, with folders as they were."""
    frame = table.spark.range(0, 12, 1, 2).selectExpr("id", "concat('n', id) AS name", "id % 2 AS part")
    frame.write.partitionBy("part").parquet(str(table.path))
    table.sql("CONVERT TO DELTA parquet.`{path}` PARTITIONED BY (part BIGINT)")
    table.sql("INSERT INTO {t} VALUES (100, 'new', 1)")


def _source(table: DeltaWriter) -> DeltaWriter:
    """A table that is to be cloned, beside the one that is kept."""
    source = DeltaWriter(table.spark, table.path.with_name("source"))
    source.create(f"{PLAIN}, part STRING", "PARTITIONED BY (part)", **VECTORS)
    source.fill(0, 20, *PLAIN_ROW, "concat('p ', id % 2)")
    source.sql("DELETE FROM {t} WHERE id IN (3, 4)")
    return source


@_table
def cloned(table: DeltaWriter) -> None:
    """A shallow clone: files and vectors of another table, with rows deleted and added here."""
    source = _source(table)
    table.sql("CREATE TABLE {t} SHALLOW CLONE {source}", source=source.name)
    table.sql(
        "DELETE FROM {t} WHERE id IN (5, 6)",
        "INSERT INTO {t} (id, part) VALUES (50, 'p 3')",
        "UPDATE {t} SET name = 'clone' WHERE id = 8",
        "DELETE FROM {t} WHERE part = 'p 1'",
    )


@_table
def cloned_past(table: DeltaWriter) -> None:
    """A shallow clone of a former version, and one of the clone, which is joined and restored."""
    source = _source(table)
    middle = DeltaWriter(table.spark, table.path.with_name("middle"))
    middle.sql("CREATE TABLE {t} SHALLOW CLONE {source} VERSION AS OF 1", source=source.name)
    middle.sql("DELETE FROM {t} WHERE id = 7")
    table.sql("CREATE TABLE {t} SHALLOW CLONE {middle}", middle=middle.name)
    table.sql(
        "INSERT INTO {t} (id, part) VALUES (60, NULL)",
        "OPTIMIZE {t}",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
        "DELETE FROM {t} WHERE id = 9",
    )


@_table
def restored(table: DeltaWriter) -> None:
    """Taken back by RESTORE to before a type was widened and a name went to another column, and forth again.

    Vectors differ on the two branches, and checkpoints have sidecars.
    """
    mapped = {"columnMapping_mode": "name", "enableTypeWidening": True, "checkpointPolicy": "v2"}
    table.create(f"{PLAIN}, n SMALLINT", checkpointInterval=4, **mapped, **VECTORS)
    table.fill(0, 10, *PLAIN_ROW, "CAST(id AS SMALLINT)")
    table.sql(
        "DELETE FROM {t} WHERE id < 3",
        "ALTER TABLE {t} ALTER COLUMN n TYPE INT",
        "ALTER TABLE {t} RENAME COLUMN name TO label",
        "ALTER TABLE {t} ADD COLUMN name INT",
        "INSERT INTO {t} SELECT id, 'l', 1.5, NULL, 70000, CAST(id AS INT) FROM range(8, 12)",
        "DELETE FROM {t} WHERE id IN (5, 9)",
        "RESTORE TABLE {t} TO VERSION AS OF 2",
        "DELETE FROM {t} WHERE id = 6",
        "RESTORE TABLE {t} TO VERSION AS OF 7",
        "REORG TABLE {t} APPLY (PURGE)",
    )
