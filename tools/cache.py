"""The one folder for everything that is fetched or built once.

A checkout can be deleted and cloned again without paying for downloads twice, and a user who wants the space
back has one folder to delete.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_dir() -> Path:
    """Return `$PRUNER_CACHE`, or `lake-pruner` in the user's cache folder."""
    named = os.environ.get("PRUNER_CACHE")
    if named:
        return Path(named).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(base) / "lake-pruner").resolve()


def say(message: str) -> None:
    """Tell whoever waits what is being done; on standard error, so that output stays usable."""
    print(message, file=sys.stderr, flush=True)


@contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Give a scratch folder that becomes `target` in one step when the block ends without an error.

    A killed or failed run leaves no half-made `target` behind, and of two runs at once the first one wins.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def one_at_a_time(target: Path) -> Iterator[None]:
    """Let other processes that make the same `target` wait until this one has made it, or has ended.

    The lock is a hidden file beside it, which stays: who removed it could hold one that another no longer sees.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprint(*parts: Path | str) -> str:
    """Return a short key that changes when any of the files' contents or the texts change."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:16]
