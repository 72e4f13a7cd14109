"""One key among many files in DuckDB, Spark and Trino: by the right file's name, through pruner, and plain.

Small files show what a statement costs by itself, large ones what reading the right file costs. In DuckDB the files
also have Parquet's own Bloom filters. In Spark there is also a Hudi table with Hudi's own record index: looked up by
Hudi, and by pruner's record index. BENCH_FILES is the number of small files (default 10,000).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import duckdb
import numpy as np
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
import pruner_spark
from benchmarks.duckdb.many_files import FILES, KEYS_A_FILE, write
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.planner_service import planner_service
from tools.spark import hudi_session
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

RUNS = 21
PLAIN_RUNS, WARMUPS = 5, 5
"""A scan of all files takes seconds."""

LARGE_FILES, KEYS_OF_A_LARGE_FILE = 20, 500_000
HUDI_GROUPS, HUDI_KEYS = 20, 1_000_000
SCHEMA = "lake"
_HUDI = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.bulkinsert.shuffle.parallelism": str(HUDI_GROUPS),
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}

Look: TypeAlias = "Callable[[], object]"
Ways: TypeAlias = "dict[str, Look]"


class Lake(NamedTuple):
    """A table of files with a record index; each row of `ids` has the keys of one file."""

    root: Path
    ids: NDArray[np.int64]

    def file(self, number: int) -> Path:
        """The path of a file."""
        return self.root / f"{number:05}.parquet"


class Keys:
    """Another key for each query, the same ones for every contender, so that no contender gets a key twice."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        rng = np.random.default_rng(17)
        self._files = rng.integers(0, len(ids), 1_000).tolist()
        self._ids = ids
        self._asked = 0

    def next(self) -> tuple[int, int]:
        """The number of a file, and a key in it."""
        file = self._files[self._asked % len(self._files)]
        place = 7 + self._asked // len(self._files)
        self._asked += 1
        return file, int(self._ids[file][place])


def run(console: Console) -> None:
    """Measure each engine; every run looks up another key."""
    count = int(os.environ.get("BENCH_FILES", str(FILES)))
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        lakes = [
            _lake(folder / "small", count, KEYS_A_FILE),
            _lake(folder / "large", LARGE_FILES, KEYS_OF_A_LARGE_FILE),
        ]
        # Here Spark and the service learn that these files never change in place.
        os.environ["PRUNER_CONFIG"] = str(_config(folder, lakes))
        grid = Grid(title=f"one key, medians of {RUNS} runs in turn ({PLAIN_RUNS} of all files)")
        for heading in ("engine", "files", "way", "ms", "of by name"):
            grid.add_column(heading, justify="right" if heading in ("ms", "of by name") else "left")
        for lake in lakes:
            _add(grid, "DuckDB", lake, _duckdb(lake))
        spark = hudi_session(folder / "spark", java_options=AS_SERVERS)
        try:
            for lake in lakes:
                _add(grid, "Spark", lake, _spark(spark, lake))
            _rows(
                grid,
                "Spark, Hudi",
                f"{HUDI_GROUPS} of {HUDI_KEYS // HUDI_GROUPS:,} keys",
                _hudi(spark, folder / "hudi"),
            )
        finally:
            spark.stop()
        client = _trino_server(running, folder, lakes)
        for lake in lakes:
            _add(grid, "Trino", lake, _trino(client, lake))
        console.print(grid)


def _lake(root: Path, files: int, keys: int) -> Lake:
    lake = Lake(root, write(root, files, keys))
    pruner.open_table(root, files="immutable").create_index("keys", on="id", using="record_index")
    return lake


def _config(folder: Path, lakes: list[Lake]) -> Path:
    lines: list[str] = []
    for root, _ in lakes:
        lines += [f"[tables.{root.name}]", f'uri = "{root}"', 'files = "immutable"']
        lines += [f'aliases = ["pruned_hive.{SCHEMA}.{root.name}"]']
    lines += ["[tables.hudi]", f'uri = "{folder / "hudi"}"', "hudi_indexes = false"]
    path = folder / "pruner.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def _add(grid: Grid, engine: str, lake: Lake, times: dict[str, float]) -> None:
    files, keys = lake.ids.shape
    _rows(grid, engine, f"{files:,} of {keys:,} keys", times)


def _rows(grid: Grid, engine: str, files: str, times: dict[str, float]) -> None:
    first = next(iter(times.values()))
    for way, seconds in times.items():
        grid.add_row(engine, files, way, f"{1e3 * seconds:.1f}", f"{seconds / first:.2f}")


def _measured(ways: Ways, whole: Ways) -> dict[str, float]:
    """Medians of lookups, taken in turn, and of scans of all files."""
    return medians(ways, RUNS, warmups=WARMUPS) | medians(whole, PLAIN_RUNS)


def _duckdb(lake: Lake) -> dict[str, float]:
    filtered = lake.root.with_name(f"{lake.root.name}_with_filters")
    filtered.mkdir()
    with (
        closing(duckdb.connect()) as con,
        closing(pruner_duckdb.connect({"t": pruner.open_table(lake.root, files="immutable")})) as pruned,
    ):
        for file in sorted(lake.root.glob("*.parquet")):
            # Without a dictionary, DuckDB writes no filter.
            options = f"FORMAT parquet, DICTIONARY_SIZE_LIMIT {KEYS_OF_A_LARGE_FILE}"
            con.execute(f"COPY (FROM '{file}') TO '{filtered / file.name}' ({options})")

        def asker(ask: Callable[..., Any], source: Callable[[int], str], *, bound: bool = False) -> Look:
            keys = Keys(lake.ids)

            def look_up() -> None:
                file, key = keys.next()
                sql = f"SELECT x FROM {source(file)} WHERE id = "
                found = ask(f"{sql}?", [key]) if bound else ask(f"{sql}{key}")
                assert found.fetchall() == [(key * 2.0,)]

            return look_up

        ways = {
            "by name": asker(con.execute, lambda file: f"read_parquet('{lake.file(file)}')"),
            "pruner": asker(pruned.execute, lambda _: "t"),
            "pruner, the key as a parameter": asker(pruned.execute, lambda _: "t", bound=True),
        }
        whole = {
            "Parquet's own filters": asker(con.execute, lambda _: f"'{filtered}/*.parquet'"),
            "plain": asker(con.execute, lambda _: f"'{lake.root}/*.parquet'"),
        }
        return _measured(ways, whole)


def _spark(spark: SparkSession, lake: Lake) -> dict[str, float]:
    pruned, plain = pruner_spark.read(spark, lake.root), spark.read.parquet(str(lake.root))
    one, two, three, four = (Keys(lake.ids) for _ in range(4))

    def by_name() -> None:
        file, key = one.next()
        # The schema is given, as for a table in a catalog.
        _found(spark.read.schema(plain.schema).parquet(str(lake.file(file))), key)

    def by_name_alone() -> None:
        file, key = two.next()
        _found(spark.read.parquet(str(lake.file(file))), key)

    def through_pruner() -> None:
        _found(pruned, three.next()[1])
        assert pruner_spark.last_plans(spark)[-1].kept == 1

    ways: Ways = {
        "by name": by_name,
        "by name, schema from the file": by_name_alone,
        "pruner": through_pruner,
    }
    return _measured(ways, {"plain": lambda: _found(plain, four.next()[1])})


def _found(frame: DataFrame, key: int) -> None:
    assert len(frame.where(f"id = {key}").collect()) == 1


def _hudi(spark: SparkSession, path: Path) -> dict[str, float]:
    """The right file by name comes from a plan; it is read as Parquet."""
    rows = spark.range(HUDI_KEYS).selectExpr("id", "id * 2.0D AS x").repartition(HUDI_GROUPS)
    rows.write.format("hudi").options(**_HUDI).mode("overwrite").save(str(path))
    table = pruner.open_table(path, hudi_indexes=False)
    table.create_index("keys", on="id", using="record_index")
    ids = np.arange(HUDI_KEYS).reshape(HUDI_GROUPS, -1)
    pruned, plain = pruner_spark.read(spark, path), _hudi_frame(spark, path, skipping=False)
    by_hudi = _hudi_frame(spark, path, skipping=True)
    names, asked = Keys(ids), Keys(ids)
    files = [table.plan(f"id = {names.next()[1]}", dialect="spark").files for _ in range(RUNS + WARMUPS)]

    def by_name() -> None:
        _found(spark.read.schema(plain.schema).parquet(*files.pop(0)), asked.next()[1])

    def asker(frame: DataFrame) -> Look:
        keys = Keys(ids)
        return lambda: _found(frame, keys.next()[1])

    ways = {
        "by name, as Parquet": by_name,
        "pruner": asker(pruned),
        "Hudi's own record index": asker(by_hudi),
    }
    return _measured(ways, {"plain": asker(plain)})


def _hudi_frame(spark: SparkSession, path: Path, *, skipping: bool) -> DataFrame:
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": str(skipping).lower()}
    return spark.read.format("hudi").options(**options).load(str(path))


def _trino_server(running: ExitStack, folder: Path, lakes: list[Lake]) -> TrinoClient:
    """Trino with each lake as a table; the right file by name is a separate table, alone in its folder."""
    metastore = Metastore(folder / "metastore")
    metastore.add_schema(SCHEMA)
    columns = {"id": "bigint", "x": "double"}
    for root, _ in lakes:
        name = root.name
        metastore.add_table(SCHEMA, name, root, columns)
        alone = folder / f"{name}_alone"
        alone.mkdir()
        os.link(root / "00000.parquet", alone / "00000.parquet")
        metastore.add_table(SCHEMA, alone.name, alone, columns)
    url = running.enter_context(planner_service(folder))
    ours = {"pruner.url": url, "pruner.timeout": "30s"}
    catalogs = {
        "hive": local_catalog("hive", metastore.folder),
        "pruned_hive": local_catalog("pruned_hive", metastore.folder, **ours),
    }
    server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()], java_options=AS_SERVERS)
    running.callback(server.stop)
    return TrinoClient(server.port)


def _trino(client: TrinoClient, lake: Lake) -> dict[str, float]:
    name = lake.root.name

    def asker(catalog: str, table: str, keys: Keys, where: Callable[[int], str] = lambda _: "") -> Look:
        def look_up() -> None:
            file, key = keys.next()
            sql = f"SELECT x FROM {table} WHERE id = {key}{where(file)}"
            assert client.run(sql, catalog=catalog, schema=SCHEMA).rows == [(key * 2.0,)]

        return look_up

    def in_the_file(number: int) -> str:
        return f" AND \"$path\" = 'local://{lake.file(number)}'"

    first = lake.ids[:1]
    ways = {
        "by name": asker("hive", f"{name}_alone", Keys(first)),
        # Trino lists the folder, as it does below pruner; then its Hive connector skips the other files.
        "right file by $path": asker("hive", name, Keys(lake.ids), in_the_file),
        "pruner": asker("pruned_hive", name, Keys(lake.ids)),
    }
    return _measured(ways, {"plain": asker("hive", name, Keys(lake.ids))})
