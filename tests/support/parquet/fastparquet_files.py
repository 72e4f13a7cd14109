"""Writes `tests/fixtures/writers/fastparquet`, once: files of a writer that the tests themselves do not install.

Run with fastparquet and pandas on the path, from the root of the repository:

    python -m pip install --target /tmp/site fastparquet==2026.9.0 pandas
    PYTHONPATH=/tmp/site:. python -m tests.support.parquet.fastparquet_files

Each folder is a table of three files, numbered 0 to 2, whose rows hold one value after the other: row `n` of the table
holds number `n` of whatever its column is made of (`VALUES`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "fixtures" / "writers" / "fastparquet"
FILES = 3
ROWS = 4
"""Of each file; the last one of each is NULL where the type has it."""

FIRST = datetime.datetime(2024, 3, 9, 22)
"""Hours that clocks in New York skip one of."""

VALUES: dict[str, Callable[[int], Any]] = {
    "int96": lambda n: FIRST + datetime.timedelta(hours=n, microseconds=n),
    "micros": lambda n: FIRST + datetime.timedelta(hours=n, microseconds=n),
    "instants": lambda n: (FIRST + datetime.timedelta(hours=n)).replace(tzinfo=datetime.UTC),
    "times": lambda n: datetime.timedelta(hours=n, microseconds=n),
    "texts": lambda n: f"é{n:02}",
    "bytes": lambda n: bytes([n, 0x80 + n]),
    "json": lambda n: {"n": n},
    "small": lambda n: n * 10,
    "unsigned": lambda n: n * 20,
    "doubles": lambda n: float("nan") if n == 5 else n / 8,
    "flags": lambda n: n < ROWS,
}


def _frame(pandas: Any, name: str, number: int) -> Any:
    values = [VALUES[name](number * ROWS + row) for row in range(ROWS)]
    nullable = name in ("int96", "micros", "instants", "times", "texts", "bytes", "json")
    if nullable:
        values[-1] = None
    kinds = {
        "int96": "datetime64[ns]",
        "micros": "datetime64[us]",
        "instants": "datetime64[us, UTC]",
        "times": "timedelta64[us]",
        "small": "int8",
        "unsigned": "uint8",
        "doubles": "float64",
        "flags": "bool",
    }
    return pandas.DataFrame({"x": pandas.Series(values, dtype=kinds.get(name, "object"))})


def write() -> None:
    """Write all files anew."""
    import fastparquet  # pyright: ignore[reportMissingImports] - installed by whoever runs this
    import pandas

    encodings = {"texts": "utf8", "bytes": "bytes", "json": "json"}
    for name in VALUES:
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(FILES):
            fastparquet.write(
                str(folder / f"{number}.parquet"),
                _frame(pandas, name, number),
                times="int96" if name == "int96" else "int64",
                object_encoding=encodings.get(name, "infer"),
                has_nulls=True,
                write_index=False,
            )


if __name__ == "__main__":
    write()
