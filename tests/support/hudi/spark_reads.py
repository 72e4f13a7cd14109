"""What Spark reads of the kept Hudi tables: asked once, kept beside each table, and packed for all machines.

The kept tables never change, and the folder that they lie in is named by the versions of Spark and Hudi: Spark's answer
about one of them is as lasting as the table. Several tests compare with the same answer, and Spark needs half a second
of a processor for each. Tables that a test writes to are asked about with `tests.support.spark.oracle`.

What was asked on one machine goes into an archive (`make archives`), so that others need not ask. An answer is known
by its table, its files, its question, and how it was asked: another oracle, another zone, other versions or a table
built anew find none there, and Spark is asked.
"""

from __future__ import annotations

import os
import pickle
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.kept.archives import nobodys
from tests.support.running import profiles
from tests.support.spark import oracle
from tests.support.spark.oracle import UNPRUNED, SparkSlice, spark_slices, spark_snapshot
from tools.cache import fingerprint, one_at_a_time

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "spark-reads.tar.xz"
FOLDER = "spark-reads"
"""The folder of answers beside a kept table."""

Question = tuple[Any, ...]
"""What of a table is asked, its instant (None: now), and for rows whether base files alone, and the expressions."""


@dataclass(frozen=True)
class Read:
    """The rows of one read, and the Spark type of each column."""

    types: dict[str, str]
    rows: list[Row]


@dataclass(frozen=True)
class SparkReads:
    """Spark's reads of kept tables; Spark starts only for those that are not kept yet."""

    start_spark: Callable[[], SparkSession]

    def read(self, path: Path, *select: str, as_of: str | None = None, read_optimized: bool = False) -> Read:
        """Return what Spark reads of a kept table: all columns, or the expressions given."""
        question = ("read", as_of, read_optimized, select)
        if select and not profiles.IS_FIXED:
            return self.ask(path, question)  # nobody asks again what a new seed asks
        return self._kept(path, question)

    def slices(self, path: Path, *, as_of: str | None = None) -> list[SparkSlice]:
        """Return the slices of a kept table that Spark's scan starts from, sorted."""
        return self._kept(path, ("slices", as_of))

    def ask(self, path: Path, question: Question) -> Any:
        """Return Spark's answer, whatever is kept."""
        kind, as_of, *more = question
        if kind == "slices":
            return spark_slices(self.start_spark(), path, as_of=as_of)
        read_optimized, select = more
        frame = spark_snapshot(self.start_spark(), path, as_of=as_of, read_optimized=read_optimized)
        chosen = frame.selectExpr(*select) if select else frame
        return Read(dict(chosen.dtypes), chosen.collect())

    def _kept(self, path: Path, question: Question) -> Any:
        assert path.parent.name == path.name, f"{path} is no kept table, so that its rows may change"
        file = path.parent / FOLDER / f"{way_of_asking()}-{fingerprint(repr(question), _state(path))}"
        if not file.is_file():
            unpack(path.parents[1])
        if file.is_file():
            return kept_answer(file.read_bytes())[1]
        answer = self.ask(path, question)
        _appear(file, pickle.dumps((question, answer)))
        return answer


def way_of_asking() -> str:
    """Return a short key of how Spark is asked: Python shows a timestamp in the zone of the process."""
    return fingerprint(repr((time.tzname, sorted(UNPRUNED.items()))), Path(oracle.__file__))


@cache
def _state(path: Path) -> str:
    """Return a short key of the table: built anew by the same code, its files have other names."""
    return fingerprint(repr(sorted(str(file.relative_to(path)) for file in path.rglob("*"))))


def kept_answer(content: bytes) -> tuple[Question, Any]:
    """Return a question and Spark's answer from the content of a file of answers."""
    return pickle.loads(content)


def unpack(root: Path) -> None:
    """Put the answers of the archive beside the tables of a folder where they are not kept yet."""
    if ARCHIVE.is_file():
        _unpacked(ARCHIVE, root)


def archived(archive: Path = ARCHIVE) -> dict[str, bytes]:
    """Return the answers of the archive by the path of their file: folder of tables, table, `FOLDER`, and name."""
    if not archive.is_file():
        return {}
    with tarfile.open(archive) as reader:
        return {each.name: _content(reader, each) for each in reader if each.isfile()}


def pack(roots: Iterable[Path], archive: Path = ARCHIVE) -> bool:
    """Write what is kept beside the tables of some folders into the archive; False where it holds just that."""
    answers: dict[str, bytes] = {}
    for root in roots:
        unpack(root)
        for file in root.glob(f"*/{FOLDER}/{way_of_asking()}-*"):
            answers[str(file.relative_to(root.parent))] = content = file.read_bytes()
            if str(root).encode() in content:
                raise ValueError(
                    f"{file} names the folder that its table is kept in, which differs elsewhere"
                )
    if answers == archived(archive):
        return False
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as writer:
        for name, content in sorted(answers.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            writer.addfile(nobodys(member), BytesIO(content))
    _appear(archive, packed.getvalue())
    return True


@cache
def _unpacked(archive: Path, root: Path) -> None:
    """Of several processes one unpacks the answers of a folder, and each tries once."""
    with one_at_a_time(root / FOLDER):
        for name, content in _by_folder(archive).get(root.name, ()):
            file = root.parent / name
            # What nobody has unpacked or built yet is no place for answers: a table appears with its folder.
            if file.parents[1].is_dir() and not file.is_file():
                _appear(file, content)


@cache
def _by_folder(archive: Path) -> dict[str, list[tuple[str, bytes]]]:
    found: dict[str, list[tuple[str, bytes]]] = {}
    for name, content in archived(archive).items():
        found.setdefault(name.partition("/")[0], []).append((name, content))
    return found


def _content(reader: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = reader.extractfile(member)
    assert file is not None
    return file.read()


def _appear(file: Path, content: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    file.parent.mkdir(exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "wb") as writer:
        writer.write(content)
    Path(scratch).chmod(0o644)
    Path(scratch).replace(file)
