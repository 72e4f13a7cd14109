"""Cached answers of Spark: for exactly this table and question, packed for all machines, and equal to Spark's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.hudi import spark_reads
from tests.support.hudi.spark_reads import (
    Question,
    Read,
    SparkReads,
    archived,
    kept_answer,
    pack,
    way_of_asking,
)
from tests.support.kept.__main__ import all_kept
from tests.support.running.profiles import examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

NO_SPARK: Any = None
ROOT = "some-tables-0123456789abcdef"


class Counted(SparkReads):
    """Answers with the number of questions asked so far."""

    def __init__(self) -> None:
        super().__init__(NO_SPARK)
        self.__dict__["asked"] = []

    def ask(self, path: Path, question: Question) -> Any:
        asked: list[Question] = self.__dict__["asked"]
        asked.append(question)
        return Read({"n": "int"}, [(len(asked),)])  # pyright: ignore[reportArgumentType]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept table, and an archive of its own for answers."""
    monkeypatch.setattr(spark_reads, "ARCHIVE", tmp_path / "archive.tar.xz")
    return _table(tmp_path / "here")


def _table(folder: Path, file: str = "a.parquet") -> Path:
    table = folder / ROOT / "t" / "t"
    table.mkdir(parents=True)
    (table / file).write_bytes(b"")
    return table


def test_a_question_is_asked_once_for_all_machines(here: Path, tmp_path: Path) -> None:
    first = Counted()
    questions: tuple[Callable[[SparkReads, Path], Any], ...] = (
        lambda reads, path: reads.read(path),
        lambda reads, path: reads.read(path, "id"),
        lambda reads, path: reads.read(path, as_of="20260101000000000"),
        lambda reads, path: reads.read(path, read_optimized=True),
        lambda reads, path: reads.slices(path),
        lambda reads, path: reads.slices(path, as_of="20260101000000000"),
    )
    answers: list[Any] = [ask(first, here) for ask in questions]
    assert [each.rows for each in answers] == [[(n,)] for n in range(1, len(questions) + 1)]
    assert [ask(first, here) for ask in questions] == answers
    assert pack([here.parents[1]], spark_reads.ARCHIVE)
    assert not pack([here.parents[1]], spark_reads.ARCHIVE)
    there = _table(tmp_path / "there")
    assert [ask(SparkReads(NO_SPARK), there) for ask in questions] == answers


def test_answers_about_other_files_are_not_taken(here: Path, tmp_path: Path) -> None:
    Counted().read(here)
    pack([here.parents[1]], spark_reads.ARCHIVE)
    anew = Counted()
    anew.read(_table(tmp_path / "there", "b.parquet"))
    assert len(anew.__dict__["asked"]) == 1


def test_an_answer_that_names_a_place_is_not_packed(here: Path) -> None:
    Counted().read(here, f"'{here}' AS place")
    with pytest.raises(ValueError, match="names the folder that its table is kept in"):
        pack([here.parents[1]], spark_reads.ARCHIVE)


def test_the_archive_holds_answers_about_today_s_tables() -> None:
    """If this fails, tables, versions or the oracle have changed since: run the tests, then `make archives`."""
    roots = {kept.root.name for kept in all_kept(lambda: NO_SPARK)}
    packed = archived()
    assert len(packed) > 500
    assert {name.partition("/")[0] for name in packed} <= roots
    assert {name.rpartition("/")[2].partition("-")[0] for name in packed} == {way_of_asking()}


@pytest.mark.spark
def test_what_is_packed_is_what_spark_reads(
    start_session: Callable[[], SparkSession], pytestconfig: pytest.Config
) -> None:
    rng = random.Random(int(pytestconfig.option.hypothesis_seed))
    packed = archived()
    kept = {each.root.name: each for each in all_kept(start_session)}
    reads = SparkReads(start_session)
    for name in rng.sample(sorted(packed), examples(12)):
        root, table, *_ = Path(name).parts
        question, answer = kept_answer(packed[name])
        anew = reads.ask(kept[root].path(table), question)
        assert _shown(anew) == _shown(answer), f"{table}: {question}"


def _shown(answer: Any) -> Any:
    """An answer as texts, with signs of zero and NaN, independent of the order of rows."""
    return (answer.types, sorted(map(repr, answer.rows))) if isinstance(answer, Read) else answer
