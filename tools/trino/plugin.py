"""Builds the Trino plugin (`adapters/pruner_trino/plugin/`) into one small jar; the same sources give the same bytes.

It is compiled for the Java of the oldest Trino that it serves, against interfaces alone: the connectors that it wraps
are looked up where it runs.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint
from tools.java import trino_java
from tools.trino.distribution import trino_home

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "adapters" / "pruner_trino" / "plugin" / "src"
SHIPPED = ROOT / "adapters" / "pruner_trino" / "plugin" / "lake-pruner-trino.jar"
"""Where the wheel takes it from (`make trino-plugin`)."""

RELEASE = "24"
"""Trino 476 runs on Java 24."""

INTERFACES = ("trino-spi", "slice", "jackson-core", "jackson-databind", "jackson-annotations")
"""What it is compiled against; Trino's connectors bring all of it."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


class CompileError(RuntimeError):
    """The plugin's sources do not compile; the message is the compiler's."""


def plugin_jar() -> Path:
    """Return the jar in the cache folder, built when the sources have changed."""
    sources = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    folder = cache_dir() / f"trino-plugin-{fingerprint(Path(__file__), *sources)}"
    jar = folder / SHIPPED.name
    if not jar.is_file():
        home = trino_home()
        with appearing(folder) as scratch:
            build(scratch / SHIPPED.name, [home.jar(artifact) for artifact in INTERFACES])
    return jar


def build(jar: Path, class_path: Sequence[Path]) -> None:
    """Compile the sources and pack them.

    Raises:
        CompileError: they do not compile against these jars.
        MissingJavaError: there is no compiler here.
    """
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch)
        compile_sources(classes, class_path)
        with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
            for root in (classes, SOURCES):
                for path in sorted(root.rglob("*")):
                    if path.is_file() and path.suffix != ".java":
                        entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), _EPOCH)
                        entry.compress_type = zipfile.ZIP_DEFLATED
                        packed.writestr(entry, path.read_bytes())


def compile_sources(classes: Path, class_path: Sequence[Path]) -> None:
    """Compile the sources into a folder; a warning is an error.

    Raises:
        CompileError: they do not compile against these jars.
        MissingJavaError: there is no compiler here.
    """
    # The interfaces' own annotations name classes of tools that nobody ships ("classfile").
    command: list[str | Path] = [
        trino_java().compiler,
        "-Xlint:all,-classfile",
        "-Werror",
        "--release",
        RELEASE,
    ]
    command += ["-d", classes, "-cp", ":".join(map(str, class_path)), *sorted(SOURCES.rglob("*.java"))]
    run = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if run.returncode != 0:
        raise CompileError(run.stdout + run.stderr)


if __name__ == "__main__":
    shutil.copy(plugin_jar(), SHIPPED)
    print(SHIPPED.relative_to(ROOT))
