"""Types of columns, their statistics, and columns that Delta fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tests.support.delta.tables.registry import VECTORS
from tests.support.delta.tables.registry import table as _table
from tests.support.delta.writer import DeltaWriter


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
