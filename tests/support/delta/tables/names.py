"""Columns whose names in the files are not those of the table, and odd names."""

from __future__ import annotations

from tests.support.delta.tables.registry import VECTORS
from tests.support.delta.tables.registry import table as _table
from tests.support.delta.writer import DeltaWriter


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
    """Mapping by name that is switched on over files and folders that have the names themselves.

    Three names change places; the one in the names of the folders goes to a column that is in the files.
    """
    table.create("a INT, b INT, part STRING, c STRING", "PARTITIONED BY (part)", **VECTORS)
    table.sql(
        "INSERT INTO {t} VALUES (1, 10, 'p', 'x'), (2, 20, 'p', 'y'), (20, 1, 'q r', 'y')",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {t} RENAME COLUMN a TO temporary",
        "ALTER TABLE {t} RENAME COLUMN b TO a",
        "ALTER TABLE {t} RENAME COLUMN part TO b",
        "ALTER TABLE {t} RENAME COLUMN temporary TO part",
        "INSERT INTO {t} VALUES (3, 30, 'p', 'z'), (10, 3, NULL, 'z')",
        "DELETE FROM {t} WHERE a = 10",
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
