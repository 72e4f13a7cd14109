"""Which worker runs which tests: files are named that are there, and those of an engine stay together."""

from __future__ import annotations

from tests.support.scheduling import LAST, LONGEST, MARKS, ROOT, engine_of, scope_of


def test_the_longest_files_are_there_and_of_no_engine() -> None:
    for file in LONGEST[len(MARKS) :]:
        assert engine_of(file) is None, file
    assert LONGEST[: len(MARKS)] == MARKS
    assert all((ROOT / file).is_file() for file in LONGEST[len(MARKS) :])


def test_a_file_belongs_to_the_engine_that_it_marks() -> None:
    assert engine_of("tests/engines/test_spark_scans.py") == "spark"
    assert engine_of("tests/engines/test_trino_plugin.py") == "trino"
    assert engine_of("tests/engines/test_duckdb_queries.py") is None


def test_the_last_part_of_spark_is_handed_out_by_itself() -> None:
    assert scope_of("tests/engines/test_spark_scans.py") == "spark"
    assert scope_of("tests/soundness/test_hudi_tables.py") == LAST
    assert scope_of("tests/known_wrong/test_found_trino.py") == "trino"
    assert scope_of("tests/unit/test_scheduling.py") == "tests/unit/test_scheduling.py"
