"""The real Delta tables that tests read: every reader feature and every kind of history, written by Spark.

Each table has a name and a builder, is built once per machine, and is read-only by agreement. Beside it stands, for
every version that can be read, what Spark reads with nothing skipped: `delta_states`. A table that is to be written to
is copied: `AllTables.copy`.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import delta_writer
from tests.support.catalyst import settings
from tests.support.delta_writer import (
    Builder,
    DeltaState,
    DeltaWriter,
    edit_commit,
    keep_truth,
    states,
)
from tests.support.hudi_tables import AllTables, HudiTables
from tools import spark_sessions
from tools.cache import cache_dir, fingerprint
from tools.jars import DELTA_JARS
from tools.spark_sessions import delta_session, session_with_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILDERS: dict[str, Builder] = {}
"""All tables by name."""


def _table(build: Builder) -> Builder:
    BUILDERS[build.__name__] = build
    return build


PLAIN = "id BIGINT, name STRING, price DECIMAL(10, 2), at TIMESTAMP"
PLAIN_ROW = (
    "id",
    "concat('n', id % 7)",
    "CAST(id * 1.25 AS DECIMAL(10, 2))",
    "TIMESTAMP '2024-03-01 00:00:00' + make_dt_interval(0, id, 0, 0.123456)",
)
VECTORS: dict[str, Any] = {"enableDeletionVectors": True}


# Appending and replacing


@_table
def append(table: DeltaWriter) -> None:
    """Files that are only added, NULLs among the values, and a version without rows."""
    table.create(PLAIN)
    table.fill(0, 10, *PLAIN_ROW)
    table.fill(10, 30, *PLAIN_ROW, files=2)
    table.fill(30, 34, "id", "NULL", "NULL", "NULL")


@_table
def replaced(table: DeltaWriter) -> None:
    """Overwritten in part, whole, and with another schema."""
    table.create(f"{PLAIN}, half INT", "PARTITIONED BY (half)")
    row = (*PLAIN_ROW, "CAST(id % 2 AS INT)")
    table.fill(0, 20, *row)
    table.sql(
        "INSERT INTO {t} REPLACE WHERE half = 1 SELECT id, 'new', 1.0, NULL, 1 FROM range(100, 105)",
        "INSERT OVERWRITE {t} SELECT id, 'all', 2.0, NULL, 0 FROM range(200, 203)",
    )
    frame = table.spark.sql("SELECT id AS other, CAST(id AS STRING) AS id FROM range(5)")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(table.path))


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


# Partitions


TEXTS = (
    "plain",
    "a b",
    "x=1/y",
    "Zürich",
    "100%",
    "%41",
    "a:b",
    "q?#&",
    "'\"",
    "[b]{c}",
    "😀",
    "",
    "1",
    "01",
    "a\\b",
)


@_table
def by_text(table: DeltaWriter) -> None:
    """Partitions whose values must be escaped in paths; an empty text becomes NULL."""
    table.create("id BIGINT, part STRING", "PARTITIONED BY (part)")
    rows = [(number, text) for number, text in enumerate((*TEXTS, None))]
    table.append(table.spark.createDataFrame(rows, "id BIGINT, part STRING"))
    table.sql("DELETE FROM {t} WHERE part = 'a b'", "UPDATE {t} SET id = id + 100 WHERE part = '100%'")


@_table
def by_types(table: DeltaWriter) -> None:
    """A partition column of every type, with extremes and NULL."""
    kinds = {
        "flag": ("BOOLEAN", "id % 2 = 0"),
        "tiny": ("TINYINT", "CAST(id * 50 AS TINYINT)"),
        "small": ("SMALLINT", "CAST(-30000 AS SMALLINT)"),
        "whole": ("INT", "CAST(id AS INT)"),
        "large": ("BIGINT", "9223372036854775800 + id"),
        "single": ("FLOAT", "CAST(id / 4 AS FLOAT)"),
        "double_": ("DOUBLE", "element_at(array(CAST('NaN' AS DOUBLE), -0.0D, 1e300D), CAST(id + 1 AS INT))"),
        "exact": ("DECIMAL(38, 10)", "CAST(id AS DECIMAL(38, 10)) / 3"),
        "day": ("DATE", "date_add(DATE '1500-02-28', CAST(id * 100000 AS INT))"),
        "moment": ("TIMESTAMP", "TIMESTAMP '2024-10-27 00:59:59.123456' + make_dt_interval(CAST(id AS INT))"),
        "local_": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '2024-03-31 02:30:00.000001'"),
        "raw": ("BINARY", "CAST(concat('b', id) AS BINARY)"),
    }
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in kinds.items())
    table.create(f"id BIGINT, {columns}", f"PARTITIONED BY ({', '.join(kinds)})")
    table.fill(0, 3, "id", *(text for _, text in kinds.values()))
    table.fill(3, 4, "id", *("NULL" for _ in kinds))


@_table
def by_zoned_time(table: DeltaWriter) -> None:
    """Timestamps as partition values, in UTC and, by another setting, in the zone of the session that wrote them."""
    table.create("id BIGINT, moment TIMESTAMP", "PARTITIONED BY (moment)")
    moments = "TIMESTAMP '2024-07-01 12:00:00.5+00:00' + make_dt_interval(CAST(id AS INT))"
    table.fill(0, 3, "id", moments)
    with table.having(write__utcTimestampPartitionValues="false"):
        table.fill(3, 6, "id", moments)


@_table
def by_many(table: DeltaWriter) -> None:
    """Forty small partitions of two levels."""
    table.create("id BIGINT, a INT, b STRING", "PARTITIONED BY (a, b)")
    table.fill(0, 80, "id", "CAST(id % 8 AS INT)", "concat('b', id % 5)")


# Deleted and changed rows


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


# Layout


@_table
def optimized(table: DeltaWriter) -> None:
    """Small files that OPTIMIZE joins, with vectors that it applies."""
    table.create(PLAIN, **VECTORS)
    for first in range(0, 40, 10):
        table.fill(first, first + 10, *PLAIN_ROW)
    table.sql("DELETE FROM {t} WHERE id IN (5, 17)", "OPTIMIZE {t}")


@_table
def zordered(table: DeltaWriter) -> None:
    """OPTIMIZE ZORDER BY over two columns, into several files."""
    table.create("id BIGINT, a INT, b STRING")
    table.fill(0, 4000, "id", "CAST(id * 7919 % 4000 AS INT)", "concat('b', id * 31 % 100)", files=4)
    with table.having(optimize__maxFileSize="30000"):
        table.sql("OPTIMIZE {t} ZORDER BY (a, b)")


@_table
def clustered(table: DeltaWriter) -> None:
    """Liquid clustering, by other columns later."""
    table.create("id BIGINT, a INT, b STRING", "CLUSTER BY (a)")
    row = ("id", "CAST(id * 37 % 100 AS INT)", "concat('b', id % 10)")
    table.fill(0, 100, *row, files=2)
    table.sql("OPTIMIZE {t}", "ALTER TABLE {t} CLUSTER BY (b, id)")
    table.fill(100, 200, *row)
    table.sql("OPTIMIZE {t}", "ALTER TABLE {t} CLUSTER BY NONE")


@_table
def vacuumed(table: DeltaWriter) -> int:
    """The files of former versions are gone, and some that never were of the table."""
    table.create(PLAIN, **VECTORS)
    table.fill(0, 10, *PLAIN_ROW)
    table.sql("DELETE FROM {t} WHERE id = 1", "OPTIMIZE {t}", "INSERT INTO {t} (id) VALUES (99)")
    with table.having(retentionDurationCheck__enabled="false", vacuum__logging__enabled="true"):
        table.sql("VACUUM {t} RETAIN 0 HOURS")
    return 4


@_table
def rearranged(table: DeltaWriter) -> None:
    """Files that were written anew with `dataChange` false."""
    table.create("id BIGINT, name STRING")
    table.fill(0, 20, "id", "concat('n', id % 3)", files=2)
    frame = table.spark.read.format("delta").load(str(table.path)).orderBy("name")
    frame.write.format("delta").mode("overwrite").option("dataChange", "false").save(str(table.path))


# Names


@_table
def mapped_by_name(table: DeltaWriter) -> None:
    """Columns that are renamed, dropped, and added again under a name that was in use, with vectors."""
    table.create(
        "id BIGINT, `odd, name` STRING, part STRING, s STRUCT<x: INT, y: STRING>",
        "PARTITIONED BY (part)",
        columnMapping_mode="name",
        **VECTORS,
    )
    row = ("id", "concat('o', id)", "concat('p/', id % 2)", "named_struct('x', CAST(id AS INT), 'y', 'y')")
    table.fill(0, 10, *row)
    table.sql("ALTER TABLE {t} RENAME COLUMN `odd, name` TO named", "ALTER TABLE {t} RENAME COLUMN s.x TO z")
    table.fill(10, 20, *row)
    table.sql(
        "DELETE FROM {t} WHERE named = 'o3'",
        "ALTER TABLE {t} DROP COLUMN named",
        "ALTER TABLE {t} ADD COLUMN named INT",
        "INSERT INTO {t} VALUES (20, 'p/0', named_struct('z', 1, 'y', NULL), 7)",
        "ALTER TABLE {t} RENAME COLUMN part TO folder",
        "ALTER TABLE {t} RENAME COLUMN id TO part",
        "INSERT INTO {t} VALUES (21, 'p/1', NULL, 8)",
    )


@_table
def mapped_by_id(table: DeltaWriter) -> None:
    """The same by field ids."""
    table.create(
        "id BIGINT, name STRING, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<v: DOUBLE>>",
        columnMapping_mode="id",
    )
    row = (
        "id",
        "concat('o', id)",
        "array(named_struct('x', CAST(id AS INT)))",
        "map('k', named_struct('v', 0.5D))",
    )
    table.fill(0, 5, *row)
    table.sql(
        "ALTER TABLE {t} RENAME COLUMN name TO id2",
        "ALTER TABLE {t} RENAME COLUMN l.element.x TO y",
        "ALTER TABLE {t} DROP COLUMN m",
        "ALTER TABLE {t} ADD COLUMN m STRING",
        "INSERT INTO {t} VALUES (5, 'o5', NULL, 'm5')",
    )


@_table
def mapped_later(table: DeltaWriter) -> None:
    """Mapping by name that is switched on over files that have the names themselves; two names are swapped."""
    table.create("a INT, b INT, c STRING")
    table.sql("INSERT INTO {t} VALUES (1, 10, 'x'), (2, 20, 'y')")
    table.sql(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.minReaderVersion' = '2', 'delta.minWriterVersion' = '5')",
        "ALTER TABLE {t} RENAME COLUMN a TO temporary",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        "ALTER TABLE {t} RENAME COLUMN temporary TO b",
        "INSERT INTO {t} VALUES (3, 30, 'z')",
        "ALTER TABLE {t} DROP COLUMN c",
    )


@_table
def odd_names(table: DeltaWriter) -> None:
    """Names with dots, quotes, another script and upper case, which need no mapping."""
    table.create("ID BIGINT, `a.b` INT, `Größe` STRING, `it's` INT, `q\"` INT, s STRUCT<`x.y`: INT>")
    table.fill(
        0, 6, "id", "CAST(id AS INT)", "concat('g', id)", "1", "2", "named_struct('x.y', CAST(id AS INT))"
    )
    table.fill(6, 9, "id", "NULL", "NULL", "3", "4", "NULL")


# Types


@_table
def widened(table: DeltaWriter) -> None:
    """The changes of a type to a wider one that Delta allows on Spark 3.5, with rows of each type."""
    table.create(
        "id INT, whole TINYINT, num SMALLINT, part TINYINT, s STRUCT<v: SMALLINT>, l ARRAY<TINYINT>",
        "PARTITIONED BY (part)",
        enableTypeWidening=True,
    )
    values = (
        "{0}, CAST({1} AS TINYINT), CAST({1} AS SMALLINT), CAST({0} AS TINYINT), "
        "named_struct('v', CAST({1} AS SMALLINT)), array(CAST({1} AS TINYINT))"
    )
    table.sql(f"INSERT INTO {{t}} SELECT {values.format(1, 127)}")
    table.sql(
        f"INSERT INTO {{t}} SELECT {values.format(2, -128)}",
        "ALTER TABLE {t} ALTER COLUMN whole TYPE SMALLINT",
    )
    table.sql("INSERT INTO {t} VALUES (3, 32767, 32767, 3, named_struct('v', 32767), array(1))")
    table.sql(
        "ALTER TABLE {t} ALTER COLUMN whole TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN num TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN part TYPE SMALLINT",
        "ALTER TABLE {t} ALTER COLUMN s.v TYPE INT",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE INT",
        "INSERT INTO {t} VALUES (4, 2147483647, 70000, 300, named_struct('v', 70000), array(70000))",
    )


@_table
def local_times(table: DeltaWriter) -> None:
    """Timestamps without a zone, around changes of the clock and before 1582."""
    table.create("id BIGINT, t TIMESTAMP_NTZ, part TIMESTAMP_NTZ", "PARTITIONED BY (part)")
    table.sql(
        "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ '2024-03-31 02:30:00.123456', TIMESTAMP_NTZ '2024-03-31 02:30:00'),"
        " (2, TIMESTAMP_NTZ '0001-01-01 00:00:00', TIMESTAMP_NTZ '0001-01-01 00:00:00.000001'),"
        " (3, TIMESTAMP_NTZ '9999-12-31 23:59:59.999999', NULL), (4, NULL, NULL)",
        "INSERT INTO {t} VALUES (5, TIMESTAMP_NTZ '1969-12-31 23:59:59.999999', TIMESTAMP_NTZ '1582-10-10 00:00:00')",
    )


@_table
def times(table: DeltaWriter) -> None:
    """Timestamps whose microseconds the statistics cut off, and dates of the old calendar."""
    table.create("id BIGINT, at TIMESTAMP, day DATE")
    for number, (at, day) in enumerate(
        (
            ("2024-01-01 00:00:00.000999", "2024-01-01"),
            ("2024-01-01 00:00:00.001", "1582-10-14"),
            ("1969-12-31 23:59:59.999001", "1582-10-15"),
            ("1883-11-18 12:03:58.5", "0001-01-01"),
            ("0001-01-01 00:00:00", "9999-12-31"),
            ("9999-12-31 23:59:59.999999", "1970-01-01"),
        )
    ):
        table.sql(f"INSERT INTO {{t}} VALUES ({number}, TIMESTAMP '{at}', DATE '{day}')")
    table.sql(
        "INSERT INTO {t} VALUES (6, NULL, NULL), (7, TIMESTAMP '2024-01-01 00:00:00', DATE '2024-01-02')"
    )


@_table
def floats(table: DeltaWriter) -> None:
    """NaN, both zeros and the infinities, each in a file of its own and together."""
    table.create("id INT, f FLOAT, d DOUBLE")
    values = ("NaN", "-0.0", "0.0", "Infinity", "-Infinity", "1.5", "1e-320")
    union = " UNION ALL ".join(
        f"SELECT {number}, CAST('{value}' AS FLOAT), CAST('{value}' AS DOUBLE)"
        for number, value in enumerate(values)
    )
    table.spark.sql(f"INSERT INTO {table.name} SELECT * FROM VALUES (10, 1.0, 2.0), (11, NULL, NULL)")
    for query in union.split(" UNION ALL "):
        table.spark.sql(f"INSERT INTO {table.name} {query}")
    table.spark.sql(f"INSERT INTO {table.name} SELECT /*+ COALESCE(1) */ * FROM ({union})")


@_table
def texts(table: DeltaWriter) -> None:
    """Texts that statistics cut: long ones alike up to 32 characters, surrogate pairs, and the last characters."""
    table.create("id INT, t STRING, b BINARY, c CHAR(5), v VARCHAR(60)")
    long = "x" * 32
    found = (
        f"{long}a",
        f"{long}z",
        long,
        "😀" * 20,
        "\U0010ffff" * 40,
        "\uffff" * 40,
        "\x7f" * 40,
        "z" * 31 + "😀😀",
        "",
        "\x00",
        "é" * 40,
        None,
    )
    spark = table.spark
    for number, text in enumerate(found):
        raw = None if text is None else bytearray(text.encode())
        short = None if text is None else text[:3]
        cut = None if text is None else text[:50]
        schema = "id INT, t STRING, b BINARY, c STRING, v STRING"
        frame = spark.createDataFrame([(number, text, raw, short, cut)], schema)
        table.append(frame.selectExpr("id", "t", "b", "CAST(c AS CHAR(5)) c", "CAST(v AS VARCHAR(60)) v"))


@_table
def decimals(table: DeltaWriter) -> None:
    """Decimals of 9, 18 and 38 digits, at their ends."""
    table.create("id INT, a DECIMAL(9, 2), b DECIMAL(18, 6), c DECIMAL(38, 0), d DECIMAL(38, 37)")
    nines = "9" * 38
    table.sql(
        f"INSERT INTO {{t}} VALUES (1, 9999999.99, 999999999999.999999, {nines}BD, 9.{nines[1:]}BD)",
        f"INSERT INTO {{t}} VALUES (2, -9999999.99, -999999999999.999999, -{nines}BD, -9.{nines[1:]}BD)",
        "INSERT INTO {t} VALUES (3, 0.01, 0.000001, 1, 0), (4, NULL, NULL, NULL, NULL)",
        "INSERT INTO {t} VALUES (5, 1.1, 9007199254740993.000000 / 10000, 9007199254740993, 0.1)",
    )


@_table
def primitives(table: DeltaWriter) -> None:
    """A column of every type, with its extremes."""
    table.create(
        "id INT, bo BOOLEAN, ti TINYINT, sm SMALLINT, it INT, bi BIGINT, fl FLOAT, do DOUBLE, de DECIMAL(20, 3), "
        "st STRING, bn BINARY, da DATE, tm TIMESTAMP, nz TIMESTAMP_NTZ"
    )
    table.sql(
        "INSERT INTO {t} VALUES (1, true, -128, -32768, -2147483648, -9223372036854775807, -3.4e38, -1.7e308, "
        "-1.5, 'a', X'00', DATE '2000-01-01', TIMESTAMP '2000-01-01 00:00:00', TIMESTAMP_NTZ '2000-01-01 00:00:00')",
        "INSERT INTO {t} VALUES (2, false, 127, 32767, 2147483647, 9223372036854775807, 3.4e38, 1.7e308, "
        "1.5, 'z', X'FF', DATE '2030-01-01', TIMESTAMP '2030-01-01 00:00:00', TIMESTAMP_NTZ '2030-01-01 00:00:00')",
        "INSERT INTO {t} (id) VALUES (3)",
    )


@_table
def nested(table: DeltaWriter) -> None:
    """Structs in structs, arrays and maps, NULL at each level."""
    table.create(
        "id BIGINT, s STRUCT<a: INT, t: STRUCT<b: STRING, c: TIMESTAMP>>, l ARRAY<STRUCT<x: INT, y: ARRAY<STRING>>>, "
        "m MAP<STRING, ARRAY<INT>>, n ARRAY<MAP<INT, STRING>>",
        **VECTORS,
    )
    table.fill(
        0,
        8,
        "id",
        "IF(id = 1, NULL, named_struct('a', CAST(id AS INT), 't', IF(id = 2, NULL, named_struct('b', "
        "concat('b', id), 'c', TIMESTAMP '2024-01-01 00:00:00.000001'))))",
        "IF(id = 3, NULL, array(named_struct('x', CAST(id AS INT), 'y', IF(id = 4, NULL, array('y', NULL))), NULL))",
        "IF(id = 5, NULL, map('k', array(CAST(id AS INT)), 'n', NULL))",
        "IF(id = 6, array(), array(map(1, 'one')))",
    )
    table.sql("INSERT INTO {t} (id) VALUES (8)", "DELETE FROM {t} WHERE s.t.b = 'b7'")


@_table
def wide(table: DeltaWriter) -> None:
    """Forty columns: statistics end at the thirty-second."""
    names = [f"c{number:02}" for number in range(40)]
    table.create(", ".join(f"{name} INT" for name in names))
    values = [f"CAST(id * 10 + {number} AS INT)" for number in range(40)]
    table.fill(0, 6, *values, files=3)
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'c39, c38')")
    table.fill(6, 8, *values)


@_table
def without_statistics(table: DeltaWriter) -> None:
    """No statistics at all, then of the first column alone."""
    table.create("a INT, b STRING", dataSkippingNumIndexedCols=0)
    with table.having(stats__collect="false"):
        table.fill(0, 4, "CAST(id AS INT)", "'x'")
    table.fill(4, 8, "CAST(id AS INT)", "'y'")
    table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')")
    table.fill(8, 12, "CAST(id AS INT)", "'z'")


@_table
def generated(table: DeltaWriter) -> None:
    """Partitions that are made of other columns."""
    made = {
        "day": ("DATE", "CAST(at AS DATE)"),
        "year": ("INT", "year(at)"),
        "start": ("STRING", "substring(name, 1, 1)"),
    }
    builder, columns = _builder(table)
    builder = builder.addColumn("id", "BIGINT").addColumn("at", "TIMESTAMP").addColumn("name", "STRING")
    for name, (kind, text) in made.items():
        builder = builder.addColumn(columns(name).dataType(kind).generatedAlwaysAs(text).build())
    jvm: Any = table.spark._jvm
    builder.partitionedBy(jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(made))).execute()
    row = ("id", "TIMESTAMP '2023-12-30 18:00:00' + make_dt_interval(0, id * 12)", "concat('n', id)")
    for first in (0, 4):
        table.sql(
            f"INSERT INTO {{t}} (id, at, name) SELECT {', '.join(row)} FROM range({first}, {first + 4}, 1, 1)"
        )
    table.sql("INSERT INTO {t} (id, at, name) VALUES (9, NULL, NULL)")


@_table
def identity(table: DeltaWriter) -> None:
    """A column that numbers the rows."""
    builder, columns = _builder(table)
    number = columns("number").dataType("BIGINT").generatedAlwaysAsIdentity(10, 5).build()
    builder.addColumn(number).addColumn("name", "STRING").execute()
    table.sql("INSERT INTO {t} (name) VALUES ('a'), ('b')", "INSERT INTO {t} (name) VALUES ('c')")


def _builder(table: DeltaWriter) -> tuple[Any, Callable[[str], Any]]:
    """Delta's own way to make a table, for what Spark's SQL has no words for; and its way to make columns."""
    jvm: Any = table.spark._jvm
    java: Any = table.spark._jsparkSession
    tables = jvm.io.delta.tables.DeltaTable
    return tables.create(java).location(str(table.path)), partial(tables.columnBuilder, java)


# The log


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
    """A shallow clone of a former version, and one of the clone."""
    source = _source(table)
    middle = DeltaWriter(table.spark, table.path.with_name("middle"))
    middle.sql("CREATE TABLE {t} SHALLOW CLONE {source} VERSION AS OF 1", source=source.name)
    middle.sql("DELETE FROM {t} WHERE id = 7")
    table.sql("CREATE TABLE {t} SHALLOW CLONE {middle}", middle=middle.name)
    table.sql("INSERT INTO {t} (id, part) VALUES (60, NULL)", "OPTIMIZE {t}")


@_table
def restored(table: DeltaWriter) -> None:
    """Taken back by RESTORE, twice, over changes of the schema."""
    table.create(PLAIN, columnMapping_mode="name", **VECTORS)
    table.fill(0, 10, *PLAIN_ROW)
    table.sql("DELETE FROM {t} WHERE id < 3", "ALTER TABLE {t} RENAME COLUMN name TO label")
    table.fill(10, 12, *PLAIN_ROW)
    table.sql("RESTORE TABLE {t} TO VERSION AS OF 2", "RESTORE TABLE {t} TO VERSION AS OF 4")


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To write or read a few rows takes less than to generate and compile code for it, and comes to the same."""


def tables(start_spark: Callable[[], SparkSession]) -> AllTables:
    """Return the tables, kept on this machine; Spark starts only when one of them is not there yet.

    Each has a folder of its own, so that another builder makes its own table anew alone.
    """
    session = cache(lambda: delta_session(start_spark()))
    parts: list[HudiTables] = []
    for name, build in BUILDERS.items():
        root = cache_dir() / "delta-tables" / _key(build)
        parts.append(HudiTables(session, root, {name: partial(_built, build, root / name)}))
    return AllTables(tuple(parts))


def delta_states(tables: AllTables, name: str) -> list[DeltaState]:
    """Return the states of a table that can be read, oldest first; with what Spark reads of each."""
    return states(name, tables.path(name))


def _built(build: Builder, kept: Path, spark: SparkSession, path: Path) -> None:
    """Build a table at `path` that will be kept in the folder `kept`, which is what clones of others say then."""
    writer = DeltaWriter(spark, path)
    with settings(spark, INTERPRETED):
        keep_truth(writer, build(writer) or 0, kept)
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
    shared = (_changes, _checkpointed, _source, compact_log, _builder)
    texts = [inspect.getsource(each) for each in (build, *shared)]
    values = repr((PLAIN, PLAIN_ROW, VECTORS, INTERPRETED, TEXTS))
    sources = [Path(delta_writer.__file__), Path(spark_sessions.__file__)]
    return fingerprint(*texts, values, *sources, *(jar.sha256 for jar in DELTA_JARS), installed("pyspark"))


def main() -> None:
    """Build the tables that are not there yet: continuous integration has a core to spare while types are checked."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        started: list[SparkSession] = []

        def start() -> SparkSession:
            started.append(session_with_jars(Path(scratch), memory="3g"))
            return started[0]

        kept = tables(start)
        for name in BUILDERS:
            kept.path(name)
        for session in started:
            session.stop()


if __name__ == "__main__":
    main()
