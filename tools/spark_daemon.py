"""Starts PySpark's Python workers, with PySpark from the environment: the setting `spark.python.daemon.module`.

PySpark itself puts its archives and the jar of Spark's core on their path. Python then reads the lists of all files in
these anew for each task, which takes longer than a small task.
"""

from __future__ import annotations

import sys

ARCHIVES = (".zip", ".jar")


def main() -> None:
    """Forget the archives, and serve until Spark ends."""
    sys.path[:] = [place for place in sys.path if not place.endswith(ARCHIVES)]
    sys.path_importer_cache.clear()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
