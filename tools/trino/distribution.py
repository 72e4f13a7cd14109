"""Puts a Trino server together from the jars of `tools/trino/trino.lock`; they are fetched once into the cache folder.

The whole server's archive is ten times as large, and nothing newer than 476 is published that way. Trino needs a
full JDK 25 (`tools.java.trino_java`); the resolver runs on the same one. So does 476, the oldest that the plugin
serves: it asks for Java 24 at least.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tools.cache import appearing, cache_dir, fingerprint, say, sha256_of
from tools.jars import SETTINGS, FetchError, ivy_jar, without_hosts
from tools.java import Java, trino_java

VERSION = "483"
OLDEST = "476"
LOCK_FILES = {
    VERSION: Path(__file__).with_name("trino.lock"),
    OLDEST: Path(__file__).with_name(f"trino-{OLDEST}.lock"),
}
STORE_LOCK = Path(__file__).with_name("trino-s3.lock")
ICEBERG_LOCK = Path(__file__).with_name("trino-iceberg.lock")
LAUNCHER = Path(__file__).with_name("TrinoLauncher.java")

PLUGINS = {
    "trino-hive": "io.trino.plugin.hive.HivePlugin",
    "trino-hudi": "io.trino.plugin.hudi.HudiPlugin",
}
"""What Trino's own plugin folders name in a jar of their own, which is not published by itself; by what it is in."""

APART = {"trino-iceberg": "io.trino.plugin.iceberg.IcebergPlugin"}
"""The same of connectors that have a plugin folder for themselves."""

_PATTERN = "[artifact]-[revision](-[classifier]).[ext]"


@dataclass(frozen=True, slots=True)
class LockedJar:
    """One line of the lock file."""

    folder: str
    group: str
    artifact: str
    version: str
    classifier: str | None
    sha256: str

    @property
    def file_name(self) -> str:
        """The name under which Maven repositories keep it."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{suffix}.jar"


@dataclass(frozen=True, slots=True)
class TrinoHome:
    """Folders of an assembled server."""

    root: Path
    version: str

    @property
    def lib(self) -> Path:
        """Jars of the server itself."""
        return self.root / "lib"

    @property
    def plugin(self) -> Path:
        """Jars of the Hive and the Hudi connector, one plugin folder."""
        return self.root / "plugin"

    @property
    def launcher(self) -> Path:
        """The compiled class `TrinoLauncher`."""
        return self.root / "launcher"

    def jar(self, artifact: str) -> Path:
        """Return the server's jar of an artifact, for a compiler's class path."""
        found = next(
            jar for jar in locked_jars(self.version) if jar.folder == "lib" and jar.artifact == artifact
        )
        return self.lib / found.file_name


def locked_jars(version: str = VERSION) -> list[LockedJar]:
    """Return the jars of a version's lock file, in its order."""
    return _read_lock(LOCK_FILES[version])


def _read_lock(file: Path) -> list[LockedJar]:
    jars: list[LockedJar] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        folder, coordinates, sha256 = line.split()
        group, artifact, version, *classifier = coordinates.split(":")
        jars.append(LockedJar(folder, group, artifact, version, next(iter(classifier), None), sha256))
    return jars


def trino_home(version: str = VERSION) -> TrinoHome:
    """Return the assembled server, fetching what it is made of the first time (about 180 MB)."""
    target = cache_dir() / f"trino-{version}-{fingerprint(LOCK_FILES[version], LAUNCHER, *PLUGINS.values())}"
    if not target.is_dir():
        java = trino_java()
        say(f"Fetching Trino {version} into {target} (about 180 MB)")
        with appearing(target) as scratch:
            _assemble(TrinoHome(scratch, version), java)
    return TrinoHome(target, version)


def store_jars() -> list[Path]:
    """Return the jars with which the plugins of `VERSION` read s3://, fetching them the first time (about 11 MB)."""
    return sorted(_fetched("s3", STORE_LOCK).iterdir())


def iceberg_jars() -> list[Path]:
    """Return the jars of the Iceberg connector's plugin folder, fetching them the first time (about 25 MB).

    Most are those of the other connectors; the lock file has what Iceberg's needs beside them.
    """
    others = _fetched("iceberg", ICEBERG_LOCK)
    jars = _read_lock(ICEBERG_LOCK)
    own = {(jar.group, jar.artifact, jar.classifier) for jar in jars}
    shared = [
        trino_home().plugin / jar.file_name
        for jar in locked_jars()
        if jar.folder == "plugin" and (jar.group, jar.artifact, jar.classifier) not in own
    ]
    return [*shared, *sorted(others.iterdir())]


def _fetched(name: str, lock: Path) -> Path:
    """The folder with the jars of a lock file that stands beside that of the server, and what names their plugins."""
    target = cache_dir() / f"trino-{name}-{VERSION}-{fingerprint(lock)}"
    if not target.is_dir():
        java, jars = trino_java(), _read_lock(lock)
        say(f"Fetching what Trino {VERSION} needs for {name} into {target}")
        with appearing(target) as scratch:
            _retrieve(jars, scratch, java)
            _check(jars, scratch)
            _name_plugins(jars, scratch)
    return target


def _assemble(home: TrinoHome, java: Java) -> None:
    """Fetch and check all jars, compile the launcher, name the plugins."""
    jars = locked_jars(home.version)
    for folder in (home.lib, home.plugin):
        chosen = [jar for jar in jars if jar.folder == folder.name]
        _retrieve(chosen, folder, java)
        _check(chosen, folder)
    _name_plugins(jars, home.plugin)
    command = [java.compiler, "-d", home.launcher, "-cp", f"{home.lib}/*", LAUNCHER]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def _name_plugins(jars: Sequence[LockedJar], folder: Path) -> None:
    """Name the plugins among some jars in a jar of their folder, if there are any."""
    named = {**PLUGINS, **APART}
    plugins = [named[jar.artifact] for jar in jars if jar.artifact in named]
    if plugins:
        with zipfile.ZipFile(folder / "services.jar", "w") as services:
            services.writestr(
                "META-INF/services/io.trino.spi.Plugin", "".join(f"{name}\n" for name in plugins)
            )


def _retrieve(jars: Sequence[LockedJar], folder: Path, java: Java) -> None:
    """Run Ivy over a list of jars; a folder at a time, since two versions of one jar do not live in one call."""
    with tempfile.TemporaryDirectory() as scratch:
        settings, ivy_file = Path(scratch) / "ivysettings.xml", Path(scratch) / "ivy.xml"
        settings.write_text(SETTINGS.format(scratch=scratch), encoding="utf-8")
        ivy_file.write_text(_ivy_file(jars), encoding="utf-8")
        command = [java.executable, *java.options, f"-Divy.home={scratch}", "-jar", ivy_jar()]
        command += ["-settings", settings, "-ivy", ivy_file, "-retrieve", f"{folder}/{_PATTERN}"]
        run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    missing = [jar.file_name for jar in jars if not (folder / jar.file_name).is_file()]
    if run.returncode != 0 or missing:
        tail = "\n".join(without_hosts(run.stdout + run.stderr).splitlines()[-15:])
        raise FetchError(
            f"{len(missing)} jars of Trino could not be fetched; the resolver's last words:\n{tail}"
        )


def _ivy_file(jars: Sequence[LockedJar]) -> str:
    """Return Ivy's list of exactly these jars, nothing that they depend on."""
    lines = [
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">',
        '<info organisation="pruner" module="trino"/><configurations><conf name="default"/></configurations>',
        '<dependencies defaultconf="default->*">',
    ]
    for jar in jars:
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        lines.append(
            f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)} "
            f'transitive="false"><artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"{classifier}/>'
            "</dependency>"
        )
    return "\n".join([*lines, "</dependencies></ivy-module>"])


def _check(jars: Sequence[LockedJar], folder: Path) -> None:
    """Refuse the folder when any jar's content is not the pinned one, or one is there that nobody named."""
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda jar: sha256_of(folder / jar.file_name), jars))
    wrong = [jar.file_name for jar, sha256 in zip(jars, found, strict=True) if jar.sha256 != sha256]
    others = {path.name for path in folder.iterdir()} - {jar.file_name for jar in jars}
    if wrong or others:
        raise FetchError(f"not what the lock file names: {', '.join([*wrong, *sorted(others)])}")


if __name__ == "__main__":
    print(trino_home().root)
