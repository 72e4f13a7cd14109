"""Which worker runs which tests: the named files exist, and no worker waits while files are left."""

from __future__ import annotations

from tests.support.running.scheduling import LONGEST, ROOT, engine_of, needs_engine, next_scope, scope_of

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


def _order(worker: int) -> list[str]:
    left = [NEITHER, BOTH, "trino", SPARK, LONG_WITHOUT, LONG]
    order: list[str] = []
    while left:
        order.append(next_scope(left, worker))
        left.remove(order[-1])
    return order


def test_the_first_takes_files_of_spark_first() -> None:
    assert _order(0) == [LONG, SPARK, BOTH, "trino", LONG_WITHOUT, NEITHER]


def test_the_second_takes_files_of_trino_first_and_spark_s_next() -> None:
    assert _order(1) == ["trino", BOTH, LONG, SPARK, LONG_WITHOUT, NEITHER]


def test_others_take_what_needs_no_engine_first() -> None:
    assert _order(2)[:2] == [LONG_WITHOUT, NEITHER]
    assert [needs_engine(scope) for scope in (SPARK, BOTH, "trino", NEITHER)] == [True, True, True, False]
