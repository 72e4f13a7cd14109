"""Writes `tests/fixtures/writers/parquet-mr`, once: files of parquet-mr before 1.11, as Hive and old Spark have them.

Run with a JDK of 11 to 17 whose javac is on the path, from the root of the repository: `python -m
tests.support.parquet.old_files`. What the files hold stands in `OldFiles.java`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pyspark

from tools.jars import Jar, fetched_jar

FOLDER = Path(__file__).parents[2] / "fixtures" / "writers" / "parquet-mr"
PARQUET_MR = Jar(
    group="org.apache.parquet",
    artifact="parquet-hadoop-bundle",
    version="1.10.1",
    sha256="d68ded82885af8bb680a11aa07a7b2a7d1f2d4423c6e30739f3ac7b27ddb105e",
)
_OF_SPARK = (
    "hadoop-client-*",
    "slf4j-api-*",
    "commons-logging-*",
    "commons-pool-*",
    "snappy-*",
    "jackson-*-asl-*",
)


def write() -> None:
    """Write all files anew."""
    beside = Path(pyspark.__file__).parent / "jars"
    jars = [fetched_jar(PARQUET_MR), *(jar for pattern in _OF_SPARK for jar in beside.glob(f"{pattern}.jar"))]
    path = ":".join(map(str, jars))
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(__file__).with_name("OldFiles.java")
        subprocess.run(["javac", "-cp", path, "-d", scratch, source], check=True)
        subprocess.run(["java", "-Xmx300m", "-cp", f"{scratch}:{path}", "OldFiles", FOLDER], check=True)
    for checksum in FOLDER.glob("*/.*.crc"):
        checksum.unlink()


if __name__ == "__main__":
    write()
