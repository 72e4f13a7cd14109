"""Builds MinIO, an S3-compatible server, from its Go module: `python -m tools.minio` prints the path of the program.

The module is pinned by version and checksum, and its own `go.sum` pins what it needs. The program lands in the cache
folder in one step; what Go fetched and compiled on the way goes again, unless GOMODCACHE and GOCACHE name a place.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.cache import appearing, cache_dir, fingerprint, say
from tools.jars import FetchError, without_hosts

MODULE = "github.com/minio/minio"
VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"
CHECKSUM = "h1:/qdoYujxF5MBLDMVLeiYJ/7fBa1HikX39Dvzb9Ji8pA="
"""Of the module's files, as Go's checksum database and every `go.sum` have it."""

_USUAL_PLACE = Path("/usr/local/go/bin/go")


def go_command() -> Path | None:
    """The Go toolchain, where this machine has one."""
    found = shutil.which("go")
    if found is not None:
        return Path(found)
    return _USUAL_PLACE if _USUAL_PLACE.is_file() else None


def minio() -> Path:
    """Return the path of the server's program, building it the first time (some minutes, and 2 GB meanwhile).

    Raises:
        FetchError: there is no Go, the module cannot be fetched or is not the pinned one, or it does not build.
    """
    folder = cache_dir() / f"minio-{fingerprint(MODULE, VERSION, CHECKSUM)}"
    if not (folder / "minio").is_file():
        go = go_command()
        if go is None:
            raise FetchError("MinIO is built with Go 1.24 or newer, and this machine has no Go")
        say(f"Building MinIO into {folder}, which takes some minutes")
        with tempfile.TemporaryDirectory(dir=_made(cache_dir())) as scratch, appearing(folder) as target:
            environment = {
                "GOMODCACHE": f"{scratch}/modules",
                "GOCACHE": f"{scratch}/compiled",
                **os.environ,
                "CGO_ENABLED": "0",
                "GOFLAGS": "-mod=readonly -modcacherw",
            }
            sources = _fetched(go, environment, scratch)
            _run([go, "build", "-o", target / "minio", "."], sources, environment)
    return folder / "minio"


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fetched(go: Path, environment: dict[str, str], scratch: str) -> str:
    """The folder with the sources of the module, which are the pinned ones."""
    answer = json.loads(_run([go, "mod", "download", "-json", f"{MODULE}@{VERSION}"], scratch, environment))
    if answer["Sum"] != CHECKSUM:
        raise FetchError(f"{MODULE} {VERSION} has the checksum {answer['Sum']}, expected {CHECKSUM}")
    sources: str = answer["Dir"]
    return sources


def _run(command: list[Path | str], folder: str, environment: dict[str, str]) -> str:
    run = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        tail = "\n".join(without_hosts(run.stdout + run.stderr).splitlines()[-15:])
        raise FetchError(f"could not build MinIO; the last words of Go:\n{tail}")
    return run.stdout


if __name__ == "__main__":
    print(minio())
