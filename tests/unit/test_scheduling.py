"""Which worker runs which tests: files are named that are there, and no worker waits while files are left."""

from __future__ import annotations

from tests.support.running.scheduling import LONGEST, ROOT, engine_of, next_scope, scope_of

SPARK = "tests/engines/spark/scans/test_spark_scans.py"
BOTH = "tests/engines/hudi/tables/test_hudi_metadata_scans.py"
LONG = "tests/engines/delta/test_delta_states.py"
NEITHER = "tests/unit/test_scheduling.py"
LONG_WITHOUT = "tests/soundness/indexes/test_bitmaps.py"


def test_the_longest_files_are_there_and_handed_out_by_themselves() -> None:
    assert len(set(LONGEST)) == len(LONGEST)
    for file in LONGEST:
        assert (ROOT / file).is_file(), file
        assert scope_of(file) == file


def test_a_file_belongs_to_the_engine_that_it_marks() -> None:
    assert engine_of(SPARK) == "spark"
    assert engine_of(BOTH) == "spark"
    assert engine_of("tests/engines/trino/test_trino_plugin.py") == "trino"
    assert engine_of("tests/engines/duckdb/statements/test_duckdb_queries.py") is None


def test_tests_of_trino_alone_stay_together() -> None:
    assert scope_of("tests/engines/trino/test_trino_plugin.py") == "trino"
    assert scope_of("tests/known_wrong/trino/test_found_trino.py") == "trino"
    assert scope_of(BOTH) == BOTH
    assert scope_of(SPARK) == SPARK


def _order(*, has_spark: bool, is_taken: bool) -> list[str]:
    left = [NEITHER, BOTH, "trino", SPARK, LONG_WITHOUT, LONG]
    order: list[str] = []
    while left:
        order.append(next_scope(left, has_spark=has_spark, is_taken=is_taken))
        left.remove(order[-1])
    return order


def test_who_has_spark_takes_its_files_first() -> None:
    expected = [LONG, SPARK, BOTH, "trino", LONG_WITHOUT, NEITHER]
    assert _order(has_spark=True, is_taken=True) == expected
    assert _order(has_spark=False, is_taken=False) == expected


def test_others_take_files_of_spark_when_nothing_else_is_left() -> None:
    assert _order(has_spark=False, is_taken=True) == ["trino", LONG_WITHOUT, NEITHER, BOTH, LONG, SPARK]
