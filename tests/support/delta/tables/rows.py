"""What is done to rows: added, replaced, changed, and deleted with vectors."""

from __future__ import annotations

from typing import Any

from tests.support.delta.tables.registry import PLAIN, PLAIN_ROW, VECTORS
from tests.support.delta.tables.registry import table as _table
from tests.support.delta.writer import DeltaWriter, edit_commit


@_table
def append(table: DeltaWriter) -> None:
    """Files that are only added, NULLs among the values, and a version without rows."""
    table.create(PLAIN)
    table.fill(0, 10, *PLAIN_ROW)
    table.fill(10, 30, *PLAIN_ROW, files=2)
    table.fill(30, 34, "id", "NULL", "NULL", "NULL")


@_table
def replaced(table: DeltaWriter) -> None:
    """Overwritten in part, whole, and with another schema; then restored to the former one and back."""
    table.create(f"{PLAIN}, half INT", "PARTITIONED BY (half)")
    row = (*PLAIN_ROW, "CAST(id % 2 AS INT)")
    table.fill(0, 20, *row)
    table.sql(
        "INSERT INTO {t} REPLACE WHERE half = 1 SELECT id, 'new', 1.0, NULL, 1 FROM range(100, 105)",
        "INSERT OVERWRITE {t} SELECT id, 'all', 2.0, NULL, 0 FROM range(200, 203)",
    )
    frame = table.spark.sql("SELECT id AS other, CAST(id AS STRING) AS id FROM range(5)")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(table.path))
    table.sql("RESTORE TABLE {t} TO VERSION AS OF 1", "INSERT INTO {t} VALUES (3, '3', 3.0, NULL, 1)")
    table.sql("RESTORE TABLE {t} TO VERSION AS OF 4")


@_table
def evolved(table: DeltaWriter) -> None:
    """Columns that come later, at the end and between others, in structs as well."""
    table.create("id BIGINT, s STRUCT<a: INT>")
    table.fill(0, 4, "id", "named_struct('a', CAST(id AS INT))")
    wider = "SELECT id, named_struct('a', 1, 'b', 'x') AS s, id * 2 AS twice FROM range(4, 8)"
    table.append(table.spark.sql(wider), mergeSchema="true")
    table.sql("ALTER TABLE {t} ADD COLUMNS (first STRING FIRST, middle DOUBLE AFTER id)")
    table.sql("INSERT INTO {t} SELECT 'f', id, 0.5, named_struct('a', 2, 'b', 'y'), id FROM range(8, 10)")


@_table
def defaults(table: DeltaWriter) -> None:
    """A default of a column, which is for rows that are written alone, and a constraint."""
    table.create(
        "id BIGINT, city STRING DEFAULT 'Ulm', n INT NOT NULL", feature_allowColumnDefaults="supported"
    )
    table.sql(
        "INSERT INTO {t} (id, n) VALUES (1, 1), (2, 2)",
        "ALTER TABLE {t} ADD CONSTRAINT small CHECK (n < 100 OR n IS NULL)",
        "INSERT INTO {t} VALUES (3, DEFAULT, 3), (4, 'Bonn', 4)",
        "ALTER TABLE {t} ALTER COLUMN n DROP NOT NULL",
        "INSERT INTO {t} VALUES (5, NULL, NULL)",
    )


@_table
def nothing(table: DeltaWriter) -> None:
    """A table that never had a row, with a comment and a property set later."""
    table.create("id INT COMMENT 'none yet', Name STRING", "COMMENT 'empty'")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.appendOnly' = 'true', 'team' = 'us')")


def _changes(table: DeltaWriter) -> None:
    table.fill(0, 40, *PLAIN_ROW, files=4)
    table.sql(
        "DELETE FROM {t} WHERE id IN (3, 14)",
        "DELETE FROM {t} WHERE id IN (4, 15, 25)",
        "UPDATE {t} SET name = 'changed' WHERE id BETWEEN 18 AND 21",
        "MERGE INTO {t} t USING (SELECT id * 7 AS id FROM range(8)) s ON t.id = s.id "
        "WHEN MATCHED AND s.id < 20 THEN DELETE WHEN MATCHED THEN UPDATE SET price = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'merged')",
        "DELETE FROM {t} WHERE id >= 30 AND id < 40",
    )


@_table
def rewritten(table: DeltaWriter) -> None:
    """DELETE, UPDATE and MERGE that write files anew."""
    table.create(PLAIN, enableDeletionVectors=False)
    _changes(table)


@_table
def vectors(table: DeltaWriter) -> None:
    """The same with deletion vectors, one upon another; then whole, purged and restored."""
    table.create(PLAIN, **VECTORS)
    _changes(table)
    table.sql("REORG TABLE {t} APPLY (PURGE)", "RESTORE TABLE {t} TO VERSION AS OF 3", "DELETE FROM {t}")


@_table
def vectors_by_part(table: DeltaWriter) -> None:
    """Deletion vectors in partitions, and switched off again."""
    table.create("id BIGINT, part STRING", "PARTITIONED BY (part)", **VECTORS)
    table.fill(0, 60, "id", "concat('p ', id % 3)")
    table.sql(
        "DELETE FROM {t} WHERE id % 10 = 3",
        "DELETE FROM {t} WHERE part = 'p 1'",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
        "DELETE FROM {t} WHERE id = 0",
    )


@_table
def large_vectors(table: DeltaWriter) -> None:
    """Vectors of more than 65,536 positions: every kind of container, and runs."""
    table.create("id BIGINT", **VECTORS)
    table.fill(0, 140000, "id")
    table.sql(
        "DELETE FROM {t} WHERE id % 3 = 1 AND id < 66000",
        "DELETE FROM {t} WHERE id BETWEEN 70000 AND 139000",
    )


@_table
def inline_vectors(table: DeltaWriter) -> None:
    """A vector in the log itself, as other writers have it."""
    table.create(PLAIN, **VECTORS)
    table.fill(0, 20, *PLAIN_ROW)
    table.sql("DELETE FROM {t} WHERE id IN (2, 3, 11)")
    jvm: Any = table.spark._jvm
    descriptors = jvm.org.apache.spark.sql.delta.actions.DeletionVectorDescriptor

    def inline(action: dict[str, Any]) -> None:
        vector = action.get("add", {}).get("deletionVector")
        if vector is not None:
            (file,) = table.path.glob("deletion_vector_*.bin")
            start = int(vector["offset"]) + 4
            raw = bytes(file.read_bytes()[start : start + int(vector["sizeInBytes"])])
            made = descriptors.inlineInLog(raw, vector["cardinality"])
            vector.clear()
            vector.update(
                storageType=made.storageType(),
                pathOrInlineDv=made.pathOrInlineDv(),
                sizeInBytes=made.sizeInBytes(),
                cardinality=made.cardinality(),
            )

    edit_commit(table, table.version, inline)


@_table
def change_feed(table: DeltaWriter) -> None:
    """Changes are written beside the rows, into files that are no part of the table."""
    table.create(PLAIN, enableChangeDataFeed=True, enableDeletionVectors=False)
    table.fill(0, 10, *PLAIN_ROW)
    table.sql("UPDATE {t} SET name = 'changed' WHERE id = 3", "DELETE FROM {t} WHERE id = 4")
