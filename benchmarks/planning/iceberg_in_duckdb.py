"""One query by DuckDB's iceberg extension, run twice in one connection; `benchmarks.planning.iceberg` starts it.

It runs in its own environment. Arguments: the table's metadata file, and a value of `id` that one file has.
"""

from __future__ import annotations

import json
import sys
import sysconfig
import time
from pathlib import Path

import duckdb


def main() -> None:
    """Print the CPU seconds of loading, and of each of the two queries."""
    metadata, value = sys.argv[1], int(sys.argv[2])
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for file in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.duckdb_extension")):
        connection.execute(f"INSTALL '{file}'")
    for name in ("avro", "iceberg"):
        connection.execute(f"LOAD {name}")
    taken: list[float] = []
    for _ in range(2):
        started = time.process_time()
        rows = connection.execute(f"SELECT id FROM iceberg_scan('{metadata}') WHERE id = {value}").fetchall()
        taken.append(time.process_time() - started)
        assert rows == [(value,)], rows
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
