"""Starts a local Spark with Hudi, as cheaply as it can be had, for tests and for the demo.

Everything Spark would drop into the working directory goes to a scratch folder, and nothing is resolved or
downloaded at the start: the jar is a file of the cache folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from tools.jars import hudi_bundle, local_files_jar, s3a_jars
from tools.java import SPARING, spark_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_CONFIGURATION = """status = error
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

JVM_OPTIONS = (
    "-Xss4m",
    "-Duser.timezone=UTC",
    # Hudi's estimator of object sizes looks at its own process.
    "-Djdk.attach.allowAttachSelf=true",
)


def hudi_session(
    scratch: Path,
    *,
    memory: str = "2g",
    extra: dict[str, str] | None = None,
    s3a: bool = False,
    java_options: Sequence[str] = SPARING,
) -> SparkSession:
    """Start Spark with Hudi on two local cores; `scratch` takes everything that it writes beside tables.

    With `s3a` Spark 3.5 reads `s3a://` as well. Measurements take the `java_options` of servers.

    What the Java machine prints goes to `spark.log` there: errors that matter come back as exceptions.
    """
    from pyspark.sql import SparkSession

    java = spark_java()
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # Spark looks its host name up at the start, which takes seconds on a machine without a resolver.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    scratch.mkdir(parents=True, exist_ok=True)
    logging = scratch / "log4j2.properties"
    logging.write_text(LOG_CONFIGURATION, encoding="utf-8")
    jvm_options = " ".join([*java_options, *JVM_OPTIONS, *java.options])
    jvm_options += f" -Dlog4j2.configurationFile={logging.as_uri()}"
    jvm_options += f" -Dderby.system.home={scratch / 'derby'} -Djava.io.tmpdir={scratch}"

    builder = SparkSession.Builder().appName("pruner").master("local[2]")
    for key, value in {**_settings(scratch, memory, jvm_options, s3a=s3a), **(extra or {})}.items():
        builder = builder.config(key, value)
    with _output_to(scratch / "spark.log"):
        return builder.getOrCreate()


@contextmanager
def _output_to(file: Path) -> Iterator[None]:
    """Let child processes that start meanwhile print into a file; show its end if the start fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    with file.open("wb") as log:
        for descriptor in saved:
            os.dup2(log.fileno(), descriptor)
    try:
        yield
    except Exception as error:
        error.add_note(file.read_text(encoding="utf-8", errors="replace")[-2000:])
        raise
    finally:
        for descriptor, original in saved.items():
            os.dup2(original, descriptor)
            os.close(original)


def _settings(scratch: Path, memory: str, jvm_options: str, *, s3a: bool) -> dict[str, str]:
    """Return the configuration: a fixed session zone, and no work that a tiny table does not need; Hudi's,
    where there is a bundle for the installed Spark.
    """
    hudi = _hudi_settings(s3a=s3a) if version("pyspark").startswith("3.5.") else {}
    return hudi | {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": jvm_options,
        "spark.jars.ivy": str(scratch / "ivy"),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
        "spark.python.worker.reuse": "true",
    }


def _hudi_settings(*, s3a: bool) -> dict[str, str]:
    jars = [hudi_bundle(), *(s3a_jars() if s3a else ())]
    return {
        "spark.jars": ",".join(map(str, jars)),
        # Spark looks at files before it looks into its jars.
        "spark.driver.extraClassPath": str(local_files_jar()),
        "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
        "spark.python.daemon.module": "tools.spark_daemon",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
