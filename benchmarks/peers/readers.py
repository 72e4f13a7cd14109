"""Readers of the event lake, each by the fastest way that its documentation names: `python readers.py NAME OPTIONS`.

It runs in the environment of the reader, so libraries are imported where they are used.
"""

from __future__ import annotations

import importlib
import sys
import sysconfig
from pathlib import Path
from typing import Any

from questions import Reader, Rows, listed, moment, serve, statement


def _library(name: str) -> Any:
    return importlib.import_module(name)


Store = dict[str, str]
"""How a store is reached: endpoint, region, aws_access_key_id and aws_secret_access_key."""


def _duckdb_over(store: Store | None, *extensions: str) -> Any:
    """A connection with extensions of its environment, which may read a store; it caches what it reads from one."""
    connection = _library("duckdb").connect(config={"allow_unsigned_extensions": "true"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET parquet_metadata_cache = true")
    wanted = (*extensions, *(["httpfs"] if store else []))
    if wanted:
        # Not among those of the user, whose DuckDB would autoload them from then on.
        connection.execute(f"SET extension_directory = '{sys.prefix}/duckdb-extensions'")
        for file in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.duckdb_extension")):
            connection.execute(f"INSTALL '{file}'")
        for name in wanted:
            connection.execute(f"LOAD {name}")
    if store:
        connection.execute("SET enable_http_metadata_cache = true")
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{store['aws_access_key_id']}', "
            f"SECRET '{store['aws_secret_access_key']}', REGION '{store['region']}', URL_STYLE 'path', "
            f"USE_SSL false, ENDPOINT '{store['endpoint'].removeprefix('http://')}')"
        )
    return connection


def _for_rust(store: Store | None) -> dict[str, str]:
    """Options of a store by the names that delta-rs and Polars document."""
    if store is None:
        return {}
    named = {"AWS_ENDPOINT_URL": "endpoint", "AWS_REGION": "region"}
    keys = {name.upper(): name for name in ("aws_access_key_id", "aws_secret_access_key")}
    return {name: store[given] for name, given in {**named, **keys}.items()} | {"AWS_ALLOW_HTTP": "true"}


def _for_pyiceberg(store: Store | None) -> dict[str, str]:
    """Properties of a store by the names that PyIceberg documents."""
    if store is None:
        return {}
    keys = {"access-key-id": "aws_access_key_id", "secret-access-key": "aws_secret_access_key"}
    named = {"endpoint": "endpoint", "region": "region", **keys}
    return {f"s3.{name}": store[given] for name, given in named.items()}


class DuckDB:
    """DuckDB's own readers, which cache Parquet's and Iceberg's metadata."""

    def __init__(self, kind: str, store: Store | None = None) -> None:
        self._kind = kind
        self._connection = _duckdb_over(store, *(() if kind == "parquet" else ("avro", kind)))

    def open(self, location: str) -> None:
        if self._kind == "delta":
            self._connection.execute("DETACH DATABASE IF EXISTS events")
            # An attached table keeps its snapshot: https://duckdb.org/docs/stable/core_extensions/delta
            self._connection.execute(f"ATTACH '{location}' AS events (TYPE delta, PIN_SNAPSHOT)")
            return
        source = (
            f"iceberg_scan('{location}')"
            if self._kind == "iceberg"
            else f"read_parquet('{location}/*.parquet', hive_partitioning = false)"
        )
        self._connection.execute(f"CREATE OR REPLACE VIEW events AS SELECT * FROM {source}")

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        return listed(self._connection.execute(statement(workload, values, "events")).fetchall())


class DataFusion:
    """DataFusion with file statistics and filter pushdown."""

    def __init__(self, store: Store | None = None) -> None:
        self._library = _library("datafusion")
        self._store = store

    def open(self, location: str) -> None:
        config = self._library.SessionConfig(
            {
                "datafusion.execution.parquet.pushdown_filters": "true",
                "datafusion.execution.parquet.reorder_filters": "true",
                "datafusion.execution.collect_statistics": "true",
                "datafusion.execution.time_zone": "UTC",
            }
        )
        self._context = self._library.SessionContext(config)
        if self._store:
            bucket = location.removeprefix("s3://").partition("/")[0]
            reached = _library("datafusion.object_store").AmazonS3(
                bucket_name=bucket,
                region=self._store["region"],
                access_key_id=self._store["aws_access_key_id"],
                secret_access_key=self._store["aws_secret_access_key"],
                endpoint=self._store["endpoint"],
                allow_http=True,
            )
            self._context.register_object_store("s3://", reached, bucket)
        self._context.register_parquet("events", f"{location}/")

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        text = statement(workload, values, "events", _ARROW)
        return _of_batches(self._context.sql(text).collect())


_ARROW = "arrow_cast('{}', 'Timestamp(Microsecond, Some(\"UTC\"))')"


class Polars:
    """Lazy scans of Polars."""

    def __init__(self, kind: str, store: Store | None = None) -> None:
        self._pl = _library("polars")
        self._kind = kind
        self._store = store
        self._options = _for_rust(store) or None

    def open(self, location: str) -> None:
        if self._kind == "delta":
            self._table = _library("deltalake").DeltaTable(location, storage_options=self._options)
        elif self._kind == "iceberg":
            tables = _library("pyiceberg.table")
            self._table = tables.StaticTable.from_metadata(location, _for_pyiceberg(self._store))
        else:
            self._table = f"{location}/*.parquet"

    def _scan(self) -> Any:
        if self._kind == "delta":
            return self._pl.scan_delta(self._table)
        scan = self._pl.scan_iceberg if self._kind == "iceberg" else self._pl.scan_parquet
        return scan(self._table, storage_options=self._options)

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        pl, events = self._pl, self._scan()
        totals = [pl.len().cast(pl.Int64), pl.col("fare_cents").sum()]
        match workload:
            case "key":
                found = events.filter(pl.col("key") == values["key"]).select("event_id", "fare_cents")
            case "keys":
                found = events.filter(pl.col("key").is_in(values["keys"])).select(totals)
            case "window" | "two":
                # A literal in the column's own unit and zone: another one is a cast, which prunes nothing.
                kind = pl.Datetime("us", "UTC")
                low, high = (pl.lit(moment(values[end])).cast(kind) for end in ("low", "high"))
                condition = (pl.col("created_at") >= low) & (pl.col("created_at") < high)
                if workload == "two":
                    condition &= pl.col("zone") == values["zone"]
                found = events.filter(condition).select(totals)
            case "top":
                found = events.sort("created_at", "event_id", descending=True).select("event_id").head(100)
            case "count":
                found = events.select(pl.len())
            case "limit":
                found = events.filter(pl.col("type") == "ReleaseEvent").select("event_id").head(10)
            case "join":
                picks = pl.LazyFrame({"event_id": values["picks"]})
                found = events.join(picks, on="event_id").select(totals)
            case _:
                found = events.filter(pl.col("fare_cents") % 97 == values["rest"]).select(totals)
        return listed(found.collect().rows())


class DeltaRs:
    """deltalake's DataFusion: `QueryBuilder`."""

    def __init__(self, store: Store | None = None) -> None:
        self._library = _library("deltalake")
        self._options = _for_rust(store) or None
        self._table: Any = None

    def open(self, location: str) -> None:
        if self._table is None:
            self._table = self._library.DeltaTable(location, storage_options=self._options)
        else:
            self._table.update_incremental()
        self._query = self._library.QueryBuilder().register("events", self._table)

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        found = self._query.execute(statement(workload, values, "events", _ARROW)).read_all()
        return _of_columns([found.column(at).to_pylist() for at in range(found.num_columns)])


class PyIceberg:
    """PyIceberg, whose manifests are cached in the process; it has no joins and no sorting."""

    def __init__(self, store: Store | None = None) -> None:
        self._properties = _for_pyiceberg(store)
        self._tables = _library("pyiceberg.table")
        self._expressions = _library("pyiceberg.expressions")
        self._compute = _library("pyarrow.compute")

    def open(self, location: str) -> None:
        self._table = self._tables.StaticTable.from_metadata(location, self._properties)

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        these = self._expressions
        if workload == "count":
            return [[self._table.scan().count()]]
        if workload == "limit":
            condition = these.EqualTo("type", "ReleaseEvent")
            found = self._table.scan(condition, selected_fields=("event_id",), limit=10).to_arrow()
            return _of_columns([found.column(0).to_pylist()])
        if workload in ("top", "join"):
            return None
        condition = these.AlwaysTrue()
        if workload == "key":
            condition = these.EqualTo("key", values["key"])
        elif workload == "keys":
            condition = these.In("key", values["keys"])
        elif workload in ("window", "two"):
            low, high = (moment(values[end]).isoformat() for end in ("low", "high"))
            condition = these.And(
                these.GreaterThanOrEqual("created_at", low), these.LessThan("created_at", high)
            )
            if workload == "two":
                condition = these.And(condition, these.EqualTo("zone", values["zone"]))
        found = self._table.scan(condition, selected_fields=("event_id", "fare_cents")).to_arrow()
        fares = found.column("fare_cents")
        if workload == "key":
            return _of_columns([found.column("event_id").to_pylist(), fares.to_pylist()])
        if workload == "nothing":
            rest = self._compute.subtract(fares, self._compute.multiply(self._compute.divide(fares, 97), 97))
            fares = fares.filter(self._compute.equal(rest, values["rest"]))
        return listed([(len(fares), self._compute.sum(fares).as_py())])


class HudiRs:
    """hudi-rs, with filters by which it skips file slices and rows; it has no joins and no sorting."""

    def __init__(self) -> None:
        self._library = _library("hudi")
        self._pa = _library("pyarrow")
        self._compute = _library("pyarrow.compute")

    def open(self, location: str) -> None:
        self._table = self._library.HudiTable(location)

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        if workload not in ("key", "window", "two"):
            return None
        if workload == "key":
            filters = [("key", "=", str(values["key"]))]
        else:
            filters = [
                ("created_at", ">=", f"{moment(values['low']):%Y-%m-%dT%H:%M:%SZ}"),
                ("created_at", "<", f"{moment(values['high']):%Y-%m-%dT%H:%M:%SZ}"),
            ]
            if workload == "two":
                filters.append(("zone", "=", str(values["zone"])))
        options = self._library.HudiReadOptions(filters=filters, projection=["event_id", "fare_cents"])
        batches = self._table.read(options)
        if not batches:  # no rows, and no schema either
            return [] if workload == "key" else [[0, 0]]
        found = self._pa.Table.from_batches(batches)
        fares = found.column("fare_cents")
        if workload == "key":
            return _of_columns([found.column("event_id").to_pylist(), fares.to_pylist()])
        return listed([(len(fares), self._compute.sum(fares).as_py())])


class Pruner:
    """pruner in DuckDB, by rewritten statements or by its native scan."""

    def __init__(self, index: str, native: str = "off", store: Store | None = None) -> None:
        self._adapter = _library("pruner_duckdb")
        self._index, self._native, self._store = index, native, store
        self._location = ""

    def open(self, location: str) -> None:
        if location == self._location:
            return  # each statement checks whether the table changed
        self._location = location
        table = {"uri": location, "index_uri": self._index, "storage_options": self._store or {}}
        if self._store:
            self._connection = self._adapter.attach(_duckdb_over(self._store), {"events": table})
            return
        self._connection = self._adapter.connect({"events": table}, native=self._native)
        self._connection.execute("SET TimeZone = 'UTC'")
        self._connection.execute("SET parquet_metadata_cache = true")

    def ask(self, workload: str, values: dict[str, Any]) -> Rows | None:
        return listed(self._connection.execute(statement(workload, values, "events")).fetchall())


def _of_columns(columns: list[list[Any]]) -> Rows:
    return listed(zip(*columns, strict=True))


def _of_batches(batches: Any) -> Rows:
    return [row for each in batches for row in _of_columns([column.to_pylist() for column in each.columns])]


READERS = {
    "duckdb": DuckDB,
    "datafusion": DataFusion,
    "polars": Polars,
    "deltalake": DeltaRs,
    "pyiceberg": PyIceberg,
    "hudi": HudiRs,
    "pruner": Pruner,
}


def _make(name: str, options: dict[str, Any]) -> Reader:
    return READERS[name](**options)


if __name__ == "__main__":
    serve(_make)
