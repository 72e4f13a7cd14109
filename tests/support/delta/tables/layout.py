"""How rows lie in files: partitions, and files that are written anew, clustered or deleted."""

from __future__ import annotations

from tests.support.delta.tables.registry import PLAIN, PLAIN_ROW, VECTORS
from tests.support.delta.tables.registry import table as _table
from tests.support.delta.writer import DeltaWriter

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
