"""The plugin where things go wrong or change: no row is ever lost, and what can be pruned is."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from trino.exceptions import TrinoQueryError

from tests.support.gate import Behaviour
from tests.support.trino import STATIC, Result, Trino
from tests.support.trino_tables import Registered, TrinoTables, write_plain

pytestmark = pytest.mark.trino

FILES = 20


@pytest.fixture
def numbers(trino_tables: TrinoTables, tmp_path: Path) -> Registered:
    """20 files, `n` from 10 i to 10 i + 9 in file i."""
    for number in range(FILES):
        rows = pa.table({"n": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
        write_plain(tmp_path / "lake" / f"part-{number:02}.parquet", rows)
    return trino_tables.register(tmp_path / "lake", {"n": "bigint"})


def _drop(bits: int, count: int = FILES) -> str:
    return base64.b64encode(zlib.compress(bits.to_bytes((count + 7) // 8, "little"))).decode()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour(cut=True), "cannot be reached"),
        (Behaviour(seconds=3), "took too long"),
        (Behaviour(status=500), "answers 500"),
        (Behaviour(status=404), "answers 404"),
        (Behaviour(body=b"<html>"), "answer cannot be used"),
        (Behaviour(body=b"{}"), "answer cannot be used"),
        (Behaviour(body=b"[" * 100_000), "answer cannot be used"),
        (Behaviour(changed={"total": 3}), "answer cannot be used"),
        (Behaviour(changed={"total": -1}), "answer cannot be used"),
        (Behaviour(changed={"kept": 2}), "answer cannot be used"),
        (Behaviour(changed={"drop": "!"}), "answer cannot be used"),
        (Behaviour(changed={"drop": _drop(2**40 - 1, 40)}), "answer cannot be used"),
        (Behaviour(changed={"drop": _drop(2**FILES - 1)}), "answer cannot be used"),
        (Behaviour(changed={"keys": "AAAA"}), "answer cannot be used"),
        (Behaviour(changed={"keys": None, "snapshot_id": "another"}), "answers 404"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_a_service_that_fails_costs_no_row(numbers: Registered, behaviour: Behaviour, reason: str) -> None:
    """The scan is read whole, the log says why; once the service is well again, scans are pruned."""
    before = len(numbers.trino.server.log)
    with numbers.trino.gate.behaving(behaviour):
        found = numbers.run("n BETWEEN 42 AND 44", "pruned_hasty")
    assert found.rows == [(3,)]
    assert numbers.splits(found) == FILES
    logged = numbers.trino.server.log[before:]
    assert f"{numbers.name} is read whole" in logged
    assert reason in logged
    again = numbers.run("n BETWEEN 42 AND 44")
    assert (again.rows, numbers.splits(again)) == ([(3,)], 1)


def test_keys_of_other_files_drop_nothing(numbers: Registered) -> None:
    """An answer may be about another place altogether: what it names is not there."""
    keys = base64.b64encode(os.urandom(16 * FILES)).decode()
    with numbers.trino.gate.behaving(Behaviour(changed={"keys": keys})):
        found = numbers.run("n = 42")
    assert (found.rows, numbers.splits(found)) == ([(1,)], FILES)


def test_a_service_that_is_not_there_costs_no_row(numbers: Registered) -> None:
    """Nobody listens at that port."""
    found = numbers.run("n = 42", "pruned_alone")
    assert (found.rows, numbers.splits(found)) == ([(1,)], FILES)


def test_sessions_switch_pruning_off(numbers: Registered) -> None:
    """Then the service is not even asked."""
    found = numbers.run("n = 42", **{"pruned_hive.pruning_enabled": "false"})
    assert (found.rows, numbers.splits(found), numbers.trino.gate.requests) == ([(1,)], FILES, [])


def test_a_scan_without_a_predicate_asks_nothing(numbers: Registered) -> None:
    """There is nothing that a plan could drop."""
    found = numbers.run("true")
    assert (found.rows, numbers.splits(found), numbers.trino.gate.requests) == ([(200,)], FILES, [])


def test_keys_travel_once(numbers: Registered) -> None:
    """The second request says which snapshot is known."""
    for value in (42, 77):
        found = numbers.run(f"n = {value}")
        assert (found.rows, numbers.splits(found)) == ([(1,)], 1)
    first, second = numbers.trino.gate.answers
    assert first["keys"] is not None
    assert second["keys"] is None
    assert numbers.trino.gate.requests[1]["known_snapshot"] == first["snapshot_id"]


def _replace(file: Path, *, same_size: bool) -> None:
    """Put the row 42 into a file that was dropped for not having it."""
    before = file.stat()
    rows = list(range(190, 200)) if same_size else list(range(190, 230))
    rows[3] = 42
    write_plain(file, pa.table({"n": pa.array(rows, pa.int64())}))
    assert (file.stat().st_size == before.st_size) == same_size
    if not same_size:
        os.utime(file, (before.st_atime, before.st_mtime))


@pytest.mark.parametrize("same_size", [True, False])
def test_files_that_change_after_the_plan_are_read(numbers: Registered, same_size: bool) -> None:
    """A drop is bound to path, size and the moment of asking; a new file is in no drop list."""

    def change() -> None:
        _replace(numbers.root / "part-19.parquet", same_size=same_size)
        write_plain(numbers.root / "part-20.parquet", pa.table({"n": pa.array([42, 42], pa.int64())}))
        (numbers.root / "part-18.parquet").unlink()

    with numbers.trino.gate.behaving(Behaviour(meanwhile=change)):
        found = numbers.run("n = 42")
    assert (found.rows, numbers.splits(found)) == ([(4,)], 3)


def test_dynamic_filters_prune(numbers: Registered) -> None:
    """What a join finds on its other side is a predicate of the scan: this catalog waits for it."""
    name = numbers.name
    sql = f"SELECT count(*) FROM {name} a JOIN (SELECT n FROM {name} WHERE n IN (42, 47)) b ON a.n = b.n"
    waited = numbers.trino.run(sql, catalog="pruned_waiting", schema=numbers.schema)
    assert waited.rows == [(2,)]
    assert sorted(numbers.trino.splits_by_scan(waited.query_id).values()) == [1, 1]


def test_two_scans_of_one_table_have_plans_of_their_own(numbers: Registered) -> None:
    """Each keeps what its own predicate needs."""
    sql = f"SELECT count(*) FROM {numbers.name} a, {numbers.name} b WHERE a.n < 10 AND b.n BETWEEN 5 AND 35"
    found = numbers.trino.run(sql, catalog="pruned_hive", schema=numbers.schema, session=STATIC)
    assert found.rows == [(310,)]
    assert sorted(numbers.trino.splits_by_scan(found.query_id).values()) == [1, 4]


def test_statements_that_change_or_measure_a_table_pass(trino: Trino) -> None:
    """OPTIMIZE rewrites whole tables, ANALYZE measures them, DELETE takes partitions: none of them asks for a plan."""
    trino.gate.forget()

    def run(sql: str, **session: Any) -> Result:
        return trino.run(sql, catalog="pruned_hive", schema="managed", session=session)

    run("CREATE SCHEMA pruned_hive.managed")
    run("CREATE TABLE m (n, p) WITH (partitioned_by = ARRAY['p']) AS VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    run("INSERT INTO m VALUES (4, 'b'), (5, 'c')")
    run("ANALYZE m")
    run("ANALYZE m WITH (partitions = ARRAY[ARRAY['b']])")
    optimize = {"pruned_hive.non_transactional_optimize_enabled": "true"}
    run("ALTER TABLE m EXECUTE optimize(file_size_threshold => '10MB') WHERE p = 'b'", **optimize)
    run("DELETE FROM m WHERE p = 'c'")
    assert trino.gate.requests == []
    assert run("SELECT n, p FROM m ORDER BY n").rows == [(1, "a"), (2, "b"), (3, "b"), (4, "b")]
    for sql in ("UPDATE m SET n = 9 WHERE n = 1", "DELETE FROM m WHERE n = 1"):
        with pytest.raises(TrinoQueryError) as pruned:
            run(sql)
        with pytest.raises(TrinoQueryError) as plain:
            trino.run(sql, catalog="hive", schema="managed")
        assert pruned.value.message == plain.value.message
