"""Tables that are made once for all machines: an archive for each module of builders, beside the tests.

An archive holds the folders of tables as `KeptTables` names them, so that it is known by the key of a folder whether
its table is what today's builders would write. Where it is not, Spark builds the table. Files keep their times: a
Delta table's versions are found by them.
"""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tools.cache import one_at_a_time

ARCHIVES: Final = Path(__file__).parents[2] / "fixtures" / "tables"
HERE: Final = "/@kept-tables@"
"""Stands in archives for the folder that the folders of tables lie in, which clones of Delta tables name."""
_NAMES_PLACES: Final = ".json"


def unpack(root: Path) -> None:
    """Put tables of the archive of `root` into place where there is one, but for those that are there already."""
    archive = archive_of(root)
    if archive.is_file():
        _unpacked(archive, root.parent)


def pack(roots: Sequence[Path], archive: Path) -> None:
    """Write an archive of all tables below roots that lie in one folder."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    scratch = archive.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        for root in roots:
            for table in sorted(root.glob("[!.]*")):
                copy = Path(folder) / root.name / table.name
                shutil.copytree(table, copy, ignore=shutil.ignore_patterns("spark-reads"))
        _replace(Path(folder), str(roots[0].parent), HERE)
        _check(Path(folder), roots[0].parent)
        with tarfile.open(scratch, "w:xz", preset=9) as writer:
            writer.add(folder, arcname="", filter=nobodys)
    scratch.replace(archive)


def archive_of(root: Path) -> Path:
    """Return where the archive of a folder of tables is, which need not be there."""
    group, _, _ = root.name.rpartition("-")
    return ARCHIVES / f"{group}.tar.xz"


def archived(archive: Path) -> set[tuple[str, str]]:
    """Return the tables of an archive: the names of their folder, which ends with a key, and their own."""
    with tarfile.open(archive) as reader:
        parts = (Path(each).parts for each in reader.getnames())
        return {(each[0], each[1]) for each in parts if len(each) > 1}


@cache
def _unpacked(archive: Path, folder: Path) -> None:
    """Of several processes one unpacks an archive, and each tries once."""
    with one_at_a_time(folder / archive.name), tempfile.TemporaryDirectory(dir=folder, prefix=".") as scratch:
        with tarfile.open(archive) as reader:
            reader.extractall(scratch, filter="data")
            for (
                member
            ) in reader:  # a time is a fraction of seconds there, and may come out in the millisecond before
                time = round(member.mtime * 1_000_000) * 1000
                os.utime(Path(scratch) / member.name, ns=(time, time))
        _replace(Path(scratch), HERE, str(folder))
        for table in Path(scratch).glob("*/*"):
            target = folder / table.relative_to(scratch)
            target.parent.mkdir(exist_ok=True)
            if not target.is_dir():
                table.rename(target)


def _replace(folder: Path, old: str, new: str) -> None:
    for file in _files(folder):
        content = file.read_bytes() if file.suffix == _NAMES_PLACES else b""
        if old.encode() in content:
            before = file.stat()
            file.write_bytes(content.replace(old.encode(), new.encode()))
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def _check(folder: Path, kept: Path) -> None:
    """Plans of Hudi may name the scratch folder of the builder, which is gone by now, and do no harm."""
    for table in folder.glob("*/*"):
        place = f"{kept / table.relative_to(folder)}/".encode()
        for file in _files(table):
            if place in file.read_bytes():
                raise ValueError(
                    f"{file.relative_to(folder)} names the folder that it is kept in, so it cannot move"
                )


def _files(folder: Path) -> Iterator[Path]:
    return (each for each in folder.rglob("*") if each.is_file())


def nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Say nothing of whoever packed a table."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
