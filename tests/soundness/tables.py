"""Random Parquet tables, and what DuckDB with its optimizer off says of predicates over them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.soundness.kinds import KINDS, Kind, Value
from tests.soundness.oracle import ColumnFacts, facts
from tests.soundness.predicates import Predicate


@dataclass(frozen=True)
class RandomTable:
    """A table on disk with all that is known of it: columns, the values in each, facts by file and column."""

    root: Path
    columns: dict[str, Kind]
    values: dict[str, list[Value]]
    files: dict[str, dict[str, ColumnFacts]]


def write_table(
    rng: random.Random,
    root: Path,
    file_count: int = 12,
    column_count: int = 6,
    kinds: Sequence[Kind] = KINDS,
) -> RandomTable:
    """Write a table of `file_count` files whose columns are mostly clustered, so that statistics tell files apart."""
    root.mkdir(parents=True)
    columns = {f"c{i} {kind.name}": kind for i, kind in enumerate(rng.sample(kinds, column_count))}
    clustered = {name: rng.random() < 0.85 for name in columns}
    values: dict[str, list[Value]] = {name: [] for name in columns}
    files: dict[str, dict[str, ColumnFacts]] = {}
    for number in range(file_count):
        rows = rng.choice([0, 1, 2, 8, 8, 20, 30])
        drawn: dict[str, list[Value]] = {}
        for name, kind in columns.items():
            center = number / file_count if clustered[name] else rng.random()
            drawn[name] = _draw_column(rng, kind, center, rows)
            values[name] += [value for value in drawn[name] if value is not None]
        path = root / f"part-{number:03}.parquet"
        _write(rng, path, columns, drawn)
        files[str(path)] = {name: facts(column) for name, column in drawn.items()}
    return RandomTable(root, columns, values, files)


def _draw_column(rng: random.Random, kind: Kind, center: float, rows: int) -> list[Value]:
    nulls = rng.choice([0.0, 0.0, 0.1, 1.0 if rng.random() < 0.3 else 0.3])
    constant = kind.draw(rng, center) if rng.random() < 0.15 else None
    return [
        None if rng.random() < nulls else constant if constant is not None else kind.draw(rng, center)
        for _ in range(rows)
    ]


def _write(rng: random.Random, path: Path, columns: dict[str, Kind], drawn: dict[str, list[Value]]) -> None:
    arrays = {
        name: pa.array([None if v is None else kind.to_arrow(v) for v in drawn[name]], kind.type)
        for name, kind in columns.items()
    }
    pq.write_table(
        pa.table(arrays),
        path,
        row_group_size=rng.choice([5, 1000]),
        use_dictionary=rng.random() < 0.5,
        write_statistics=rng.random() < 0.9,
    )


class DuckDBScan:
    """Full scans by DuckDB with its optimizer off: its own pruning is sometimes wrong."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET TimeZone = 'UTC'; PRAGMA disable_optimizer")

    def matching_files(self, table: RandomTable, predicates: list[Predicate]) -> list[set[str]]:
        """For each predicate the files that hold a row on which it is true: one scan, with predicates as columns."""
        columns = ", ".join(f"coalesce(bool_or({p.sql()}), false) AS p{i}" for i, p in enumerate(predicates))
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in table.files)
        rows = self.connection.execute(
            f"SELECT filename, {columns} FROM read_parquet([{listed}], filename = true) GROUP BY filename"
        ).fetchall()
        return [{row[0] for row in rows if row[i + 1]} for i in range(len(predicates))]

    def matching_rows(self, table: RandomTable, predicates: list[Predicate]) -> list[dict[str, list[int]]]:
        """For each predicate the positions of the rows on which it is true, ascending, by file that has some."""
        columns = ", ".join(f"({p.sql()}) AS p{i}" for i, p in enumerate(predicates))
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in table.files)
        read = f"read_parquet([{listed}], filename = true, file_row_number = true)"
        rows = self.connection.execute(
            f"SELECT filename, file_row_number, {columns} FROM {read} ORDER BY 1, 2"
        ).fetchall()
        found: list[dict[str, list[int]]] = [{} for _ in predicates]
        for name, position, *outcomes in rows:
            for matching, outcome in zip(found, outcomes, strict=True):
                if outcome:
                    matching.setdefault(name, []).append(position)
        return found
