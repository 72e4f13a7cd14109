"""Compiles the extension of the native scan for the installed DuckDB: `python -m tools.native_scan`.

`python -m tools.native_scan --sanitize tests.engines.duckdb.native_scan.native_pair --scripts 2000` runs a module with
an extension whose memory and arithmetic the compiler's sanitizers watch. DuckDB's library is as it comes, so they see
what passes between the two: reads of freed memory, not the leaks of an interpreter.

DuckDB's headers come from its source distribution, by pip, if a lock file has the checksum of that version. The
extension lands in the cache folder first, keyed by what it was made from, and is copied from there to where the
adapter looks for it. Without a compiler one line says so, and everything works without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from pruner_duckdb.native_scan.library import NAME, SERVED_VERSIONS, SOURCES, fingerprint, place, platform
from tools.cache import appearing, cache_dir, say, sha256_of
from tools.cache import fingerprint as key_of

ROOT = Path(__file__).resolve().parents[1]
LOCKS = "requirements*.lock"

_UNITS = ("channel", "memory", "questions", "ranges", "scan", "versions")
_SHARED = "external/duckdb/extension/json/json_serializer.cpp"
"""What DuckDB writes plans as JSON with; its library hides it."""

_INCLUDED = (
    "external/duckdb/src/include",
    "external/duckdb/extension/json/include",
    "external/duckdb/third_party/yyjson/include",
    "external/duckdb/third_party/fmt/include",
)
_KEPT = re.compile(
    r"duckdb-[^/]+/(external/duckdb/(src/include|extension/json|third_party/(yyjson|fmt))/.*|LICENSE)"
)
_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-DNDEBUG",
    "-DDUCKDB_BUILD_LOADABLE_EXTENSION",
)


_SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize=vptr")
_WATCHED = {
    "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:halt_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "PYTHONMALLOC": "malloc",
}
"""Python and DuckDB keep memory to the end, and bring allocators of their own."""


class NotBuiltError(RuntimeError):
    """The extension cannot be built here; the message is the reason."""


def compiler() -> str:
    """The C++ compiler of this machine.

    Raises:
        NotBuiltError: there is none.
    """
    named = os.environ.get("CXX") or "g++"
    found = shutil.which(named)
    if found is None:
        raise NotBuiltError(f"this machine has no C++ compiler ({named})")
    return found


def extension() -> Path:
    """Return the extension for the installed DuckDB where the adapter looks for it, building it the first time.

    Raises:
        NotBuiltError: it cannot be built.
    """
    duckdb = version("duckdb")
    if duckdb not in SERVED_VERSIONS:
        raise NotBuiltError(f"its sources are not made for DuckDB {duckdb}")
    if sys.platform != "linux":
        raise NotBuiltError(f"it was never tried on {sys.platform}")
    target = place(duckdb, platform())
    built = _compiled(duckdb, ())
    if not target.is_file() or sha256_of(target) != sha256_of(built):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A process that has the old one loaded keeps it: the new one is another file.
        scratch_file = target.with_suffix(f".{os.getpid()}")
        shutil.copyfile(built, scratch_file)
        scratch_file.replace(target)
    return target


def _compiled(duckdb: str, extra: Sequence[str]) -> Path:
    """The extension in the cache folder, built the first time with these flags.

    Raises:
        NotBuiltError: it cannot be built.
    """
    key = key_of(Path(__file__), fingerprint(), duckdb, platform(), *extra)
    built = cache_dir() / f"native-scan-{key}" / NAME
    if not built.is_file():
        found, headers = compiler(), _headers(duckdb)
        say("Compiling the native scan for DuckDB, about 20 s")
        with appearing(built.parent) as scratch:
            _compile(found, headers, scratch / NAME, duckdb, extra)
    return built


def locked_hashes(name: str, wanted: str) -> frozenset[str]:
    """The SHA-256 sums that the lock files have for a version of a distribution."""
    entry = re.compile(
        rf"^{name}=={re.escape(wanted)} \\\n((?:    --hash=sha256:\w+(?: \\)?\n)+)", re.MULTILINE
    )
    found = (entry.search(lock.read_text(encoding="utf-8")) for lock in ROOT.glob(LOCKS))
    return frozenset(each for match in found if match for each in re.findall(r"sha256:(\w+)", match.group(1)))


def _headers(duckdb: str) -> Path:
    """DuckDB's headers, fetched the first time.

    Raises:
        NotBuiltError: they cannot be fetched, or are not the locked ones.
    """
    hashes = locked_hashes("duckdb", duckdb)
    folder = cache_dir() / f"duckdb-headers-{key_of(duckdb, *sorted(hashes), _KEPT.pattern)}"
    if folder.is_dir():
        return folder / f"duckdb-{duckdb}"
    say("Fetching DuckDB's source distribution for its headers, 17 MB")
    with tempfile.TemporaryDirectory() as scratch, appearing(folder) as target:
        # pip asks a source distribution for its metadata, by tools which it fetches for that; nothing is built.
        fetched = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"),
                *("--no-deps", "--no-binary", "duckdb", "--dest", scratch, f"duckdb=={duckdb}"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        (archive,) = list(Path(scratch).glob("duckdb-*.tar.gz")) or [None]
        if fetched.returncode or archive is None:
            raise NotBuiltError(
                f"DuckDB's source distribution cannot be fetched by pip (exit code {fetched.returncode})"
            )
        if sha256_of(archive) not in hashes:
            raise NotBuiltError(f"DuckDB's source distribution is none of those in {LOCKS}")
        with tarfile.open(archive) as packed:
            members = [each for each in packed if each.isfile() and _KEPT.fullmatch(each.name)]
            packed.extractall(target, members, filter="data")
    return folder / f"duckdb-{duckdb}"


def _compile(command: str, headers: Path, target: Path, duckdb: str, extra: Sequence[str]) -> None:
    """Compile the sources and link them.

    Raises:
        NotBuiltError: they do not compile.
    """
    included = [f"-I{headers / each}" for each in _INCLUDED]
    with tempfile.TemporaryDirectory() as scratch:
        objects = [f"{scratch}/{unit}.o" for unit in (*_UNITS, "serializer")]
        sources = [*(SOURCES / f"{unit}.cpp" for unit in _UNITS), headers / _SHARED]
        defined = f'-DPRUNER_SOURCES="{fingerprint()}"'
        _run_all(
            [command, *_FLAGS, *extra, defined, *included, "-c", str(source), "-o", made]
            for source, made in zip(sources, objects, strict=True)
        )
        library = Path(scratch) / "library.so"
        _run_all([[command, "-shared", *extra, "-o", str(library), *objects]])
        target.write_bytes(library.read_bytes() + footer(duckdb, platform()))


def _run_all(commands: Iterable[Sequence[str]]) -> None:
    """Run compilers side by side, since each takes several seconds on headers.

    Raises:
        NotBuiltError: one failed.
    """
    running = [subprocess.Popen(each, stderr=subprocess.PIPE, text=True) for each in commands]
    failed = ""
    for process in running:
        told = process.communicate()[1]
        if process.returncode:
            failed = failed or told
    if failed:
        raise NotBuiltError(f"the compiler says: {failed.strip()}")


def footer(duckdb: str, platform_name: str) -> bytes:
    """What DuckDB wants to find at the end of an extension: eight fields in reverse, and no signature."""
    fields = ("4", platform_name, f"v{duckdb}", "0.1", "CPP", "", "", "")
    return b"".join(field.encode().ljust(32, b"\0") for field in reversed(fields)) + bytes(256)


def run_sanitized(arguments: Sequence[str]) -> int:
    """Run a module in a process of its own, with an extension that is watched; return its exit code.

    Args:
        arguments: the module and its arguments, as behind `python -m`.

    Raises:
        NotBuiltError: it cannot be built.
    """
    built = _compiled(version("duckdb"), _SANITIZED)
    libraries = [
        subprocess.run(
            [compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {**os.environ, **_WATCHED, "LD_PRELOAD": " ".join(libraries)}
    # The adapter loads what lies in the package, and no setting of a user's changes that: only this process does.
    begin = (
        "import runpy, sys; from pathlib import Path; from pruner_duckdb.native_scan import library; "
        "built = Path(sys.argv[1]); library.place = lambda *_: built; del sys.argv[:2]; "
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", begin, str(built), *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


def main(arguments: Sequence[str]) -> int:
    """Build the extension, or say in one line why there is none."""
    try:
        if arguments[:1] == ["--sanitize"]:
            return run_sanitized(arguments[1:])
        extension()
    except NotBuiltError as reason:
        say(f"The native scan for DuckDB is not there, everything else is: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
