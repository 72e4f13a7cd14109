"""Starts the assembled Trino on this machine, for tests and for the demo: one node, local files, a file metastore."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.java import SPARING, trino_java
from tools.trino.distribution import VERSION, iceberg_jars, trino_home

START_SECONDS = 120
"""How long a start may take: 4 to 10 seconds on two idle cores, more on busy ones."""

JVM_OPTIONS = (
    "-Xmx1500m",
    "--add-modules=jdk.incubator.vector",
    "--enable-native-access=ALL-UNNAMED",
    "-Djdk.attach.allowAttachSelf=true",
    "-Duser.timezone=UTC",
)

LOCAL_FILES = {
    "fs.native-local.enabled": "true",
    "local.location": "/",
    "hive.metastore": "file",
}

Catalogs = Mapping[str, Mapping[str, str]]


class TrinoStartError(RuntimeError):
    """The server did not come up; the message ends with the last lines of its log."""


@dataclass(frozen=True, slots=True)
class TrinoServer:
    """A running server; `stop` it."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    @property
    def log(self) -> str:
        """What the server has logged so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """End the server; nothing in it is worth waiting for."""
        self.process.kill()
        self.process.wait()


def local_catalog(connector: str, metastore: Path, **others: str) -> dict[str, str]:
    """Return the properties of a catalog that reads tables on this machine's disk.

    Locations are written `local:///…`: with `file:///…` Trino finds no file and says nothing.
    """
    place = {"hive.metastore.catalog.dir": f"local://{metastore}"}
    return {"connector.name": connector, **LOCAL_FILES, **place, **others}


def iceberg_catalog(connector: str, metastore: Path, **others: str) -> dict[str, str]:
    """Return the properties of a catalog of Iceberg tables, whose metadata a metastore of files names."""
    return {
        "connector.name": connector,
        "fs.native-local.enabled": "true",
        "local.location": "/",
        "iceberg.catalog.type": "TESTING_FILE_METASTORE",
        "hive.metastore.catalog.dir": f"local://{metastore}",
        "iceberg.register-table-procedure.enabled": "true",
        **others,
    }


def start_trino(
    folder: Path,
    catalogs: Catalogs,
    *,
    plugin_jars: Sequence[Path] = (),
    iceberg: bool = False,
    version: str = VERSION,
    java_options: Sequence[str] = SPARING,
) -> TrinoServer:
    """Start a server in an empty folder and wait until it answers.

    `plugin_jars` are put beside Trino's own connectors, as an administrator would. With `iceberg` there is a second
    plugin folder, of the Iceberg connector, and they are put there too. There is a lock file for `version`.
    Measurements take the `java_options` of servers.

    Raises:
        MissingJavaError: no full JDK 25 here.
        TrinoStartError: it ended, or did not answer in time.
    """
    java, home = trino_java(), trino_home(version)
    port = _free_port()
    _write_settings(folder, catalogs, port)
    plugins = {"lake": [*home.plugin.iterdir()], **({"iceberg": iceberg_jars()} if iceberg else {})}
    for name, jars in plugins.items():
        _fill(folder / "plugin" / name, jars, plugin_jars)
    node = {"environment": "test", "data-dir": folder / "data", "id": "here", "bind-ip": "127.0.0.1"}
    node["internal-address"] = "127.0.0.1"
    command: list[str | Path] = [java.executable, *java.options, *java_options, *JVM_OPTIONS]
    command += [f"-Dnode.{key}={value}" for key, value in node.items()]
    command += [f"-Dconfig={folder / 'config.properties'}", f"-Dlog.levels-file={folder / 'log.properties'}"]
    command += ["-cp", f"{home.launcher}{os.pathsep}{home.lib}/*", "TrinoLauncher", version]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder
        )
    server = TrinoServer(process, port, folder)
    try:
        _wait_for(server)
    except BaseException:
        server.stop()
        raise
    return server


def _fill(plugin: Path, connectors: Sequence[Path], others: Sequence[Path]) -> None:
    plugin.mkdir(parents=True)
    for jar in connectors:
        (plugin / jar.name).symlink_to(jar)
    for jar in others:
        shutil.copy(jar, plugin)


def _write_settings(folder: Path, catalogs: Catalogs, port: int) -> None:
    catalog_folder = folder / "catalog"
    catalog_folder.mkdir(parents=True)
    for name, properties in catalogs.items():
        _write_properties(catalog_folder / f"{name}.properties", properties)
    settings = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
        "plugin.dir": str(folder / "plugin"),
        "catalog.management": "static",
        "openmetrics.jmx-object-names": "lakepruner:*",
        "catalog.config-dir": str(catalog_folder),
        "query.max-memory": "500MB",
        "query.max-memory-per-node": "500MB",
        "memory.heap-headroom-per-node": "300MB",
        "task.concurrency": "2",
        # Dynamic filters reach scans within a test's patience, and splits are not held back.
        "query.min-schedule-split-batch-size": "10",
    }
    _write_properties(folder / "config.properties", settings)
    _write_properties(folder / "log.properties", {"": "WARN", "lakepruner": "INFO"})


def _write_properties(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_for(server: TrinoServer) -> None:
    """Return when the server answers; a node that is not yet known to itself is asked for by the first query."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/info", timeout=5) as answer:
                if b'"starting":false' in answer.read():
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    tail = "\n".join(server.log.splitlines()[-30:])
    raise TrinoStartError(f"Trino did not start; the end of its log:\n{tail}")
