"""Fetches and builds what tests need beside `.venv`: `python -m tools.fetch`.

Each test that needs something of it fetches it by itself. Continuous integration starts from an empty cache, and has it
fetched while it checks types, which keeps one core busy and the network idle.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping

from tools.cache import say
from tools.jars import delta_jars, hudi_bundle, iceberg_jar, local_files_jar, s3a_jars
from tools.java import spark_java
from tools.matrix import ROOT, python_with
from tools.trino.distribution import iceberg_jars, store_jars
from tools.trino.plugin import plugin_jar

LOCKS = tuple(f"requirements-{name}.lock" for name in ("store", "browser", "dbt", "duckdb-1.5"))
"""The packages of environments that some tests start processes in."""

PARTS: Mapping[str, Callable[[], object]] = {
    "the Java machine of Spark": spark_java,
    "the Hudi bundle": hudi_bundle,
    "Spark's local file system": local_files_jar,
    "the jars of Delta": delta_jars,
    "the jar of Iceberg": iceberg_jar,
    "the jars for object stores": s3a_jars,
    "Trino and the plugin": plugin_jar,
    "the jars of Trino for object stores": store_jars,
    "the jars of Trino for Iceberg": iceberg_jars,
    **{lock: lambda lock=lock: python_with(ROOT / lock) for lock in LOCKS},
}
"""What there is to fetch, by what a message calls it."""


def main() -> int:
    """Fetch each part, and tell which could not be had; return 1 if there is one.

    Whoever needs it tries again and says more: nothing but time is lost here.
    """
    missing = 0
    for name, fetch in PARTS.items():
        try:
            fetch()
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            say(f"Could not fetch {name}: {error}")
            missing += 1
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
