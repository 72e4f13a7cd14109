"""The plugin when something fails or changes: no row is ever lost, and what can be pruned is."""

from __future__ import annotations

import base64
import http
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from trino.exceptions import TrinoQueryError

from tests.support.hudi import wall_clocks as hudi_wall_clocks
from tests.support.running.patience import until
from tests.support.service.gate import Behaviour
from tests.support.trino.server import PAUSE, STATIC, Result, Trino
from tests.support.trino.tables import Registered, TrinoTables, write_plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.trino

FILES = 20
CHANGES = (
    "UPDATE {} SET n = 9 WHERE n = 1",
    "DELETE FROM {} WHERE n = 1",
    "MERGE INTO {} t USING (VALUES 1, 2) AS s(n) ON t.n = s.n WHEN MATCHED THEN DELETE",
)
"""What neither connector can do to tables that are not ACID."""


@pytest.fixture
def numbers(trino_tables: TrinoTables, tmp_path: Path) -> Registered:
    """20 files, `n` from 10 i to 10 i + 9 in file i."""
    for number in range(FILES):
        rows = pa.table({"n": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
        write_plain(tmp_path / "lake" / f"part-{number:02}.parquet", rows)
    return trino_tables.register(tmp_path / "lake", {"n": "bigint"})


def _drop(bits: int, count: int = FILES) -> str:
    return base64.b64encode(zlib.compress(bits.to_bytes((count + 7) // 8, "little"))).decode()


def _catalog(behaviour: Behaviour) -> str:
    """A catalog that waits 400 ms where the service is slow; for other failures, one that waits until they occur."""
    return "pruned_hasty" if behaviour.seconds else "pruned_failing"


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
    """The scan is read whole, the log says why; once the service has recovered, scans are pruned."""
    catalog = _catalog(behaviour)
    numbers.run("n = 1", catalog)  # so that no connection cut by an earlier behaviour is reused
    before = len(numbers.trino.server.log)
    with numbers.trino.gate.behaving(behaviour):
        found = numbers.run("n BETWEEN 42 AND 44", catalog)
    assert found.rows == [(3,)]
    assert numbers.splits(found) == FILES
    logged = numbers.trino.server.log[before:]
    assert f"{numbers.name} is read whole" in logged
    assert reason in logged
    again = numbers.run("n BETWEEN 42 AND 44")
    assert (again.rows, numbers.splits(again)) == ([(3,)], 1)


def test_a_frozen_service_is_waited_for_once(numbers: Registered) -> None:
    """Later scans do not ask for a while; then one asks again, and pruning resumes."""
    numbers.run("n = 1", "pruned_pausing")
    gate = numbers.trino.gate
    gate.forget()
    started, before = time.monotonic(), len(numbers.trino.server.log)

    def a_scan_did_not_ask() -> bool:
        found = numbers.run("n = 42", "pruned_pausing")
        assert (found.rows, numbers.splits(found)) == ([(1,)], FILES)
        return "the service took too long lately" in numbers.trino.server.log[before:]

    with gate.behaving(Behaviour(seconds=2)):
        until(a_scan_did_not_ask, "a scan that does not ask")
    assert len(gate.requests) <= 1 + (time.monotonic() - started) // PAUSE
    until(lambda: numbers.splits(numbers.run("n = 45", "pruned_pausing")) == 1, "a pruned scan")


@pytest.mark.parametrize("status", [429, 500])
def test_a_refusal_is_not_taken_for_an_answer(numbers: Registered, status: int) -> None:
    """A service that is overloaded is asked again while there is time; one that fails is not."""
    gate = numbers.trino.gate
    gate.forget()
    with gate.behaving(Behaviour(status=status, times=2)):
        found = numbers.run("n = 42")
    again = status == http.HTTPStatus.TOO_MANY_REQUESTS
    assert (found.rows, numbers.splits(found)) == ([(1,)], 1 if again else FILES)
    assert gate.posts == ["/v1/plan"] * (3 if again else 1)


def test_refusals_do_not_outlast_the_time_for_a_plan(numbers: Registered) -> None:
    """A service that is always overloaded: the scan is read whole once the catalog's 400 ms are over."""
    gate = numbers.trino.gate
    gate.forget()
    before = len(numbers.trino.server.log)
    with gate.behaving(Behaviour(status=429)):
        found = numbers.run("n = 42", "pruned_hasty")
    assert (found.rows, numbers.splits(found)) == ([(1,)], FILES)
    logged = numbers.trino.server.log[before:]
    assert "the service answers 429" in logged or "the service took too long" in logged
    # Waits double, starting at 50 ms: 50, 100 and 200 fit.
    assert len(gate.posts) <= 4


SELF_JOIN = "SELECT count(*) FROM {0} a JOIN {0} b ON a.n = b.n + 1 JOIN {0} c ON c.n = b.n + 2 WHERE {1}"
EACH_OF_THEM = "a.n BETWEEN 15 AND 34 AND b.n BETWEEN 5 AND 33 AND c.n < 50"
"""Trino derives `b.n + 1 BETWEEN 15 AND 34` from the join, which rules out one more file of `b`."""


def _joined(numbers: Registered, catalog: str) -> list[int]:
    """Join the table with itself: the rows are right; returns how many splits each of the three scans has read."""
    sql = SELF_JOIN.format(numbers.name, EACH_OF_THEM)
    found = numbers.trino.run(sql, catalog=catalog, schema=numbers.schema, session=STATIC)
    assert found.rows == [(20,)]
    return sorted(numbers.trino.splits_by_scan(found.query_id).values())


def test_the_scans_of_a_query_are_asked_for_with_one_request(numbers: Registered) -> None:
    """Three scans, one request, three plans; the keys of the table are sent at most once."""
    gate = numbers.trino.gate
    gate.forget()
    assert _joined(numbers, "pruned_hive") == [3, 3, 5]
    assert gate.posts == ["/v1/plans"]
    assert sorted(answer["kept"] for answer in gate.answers) == [3, 3, 5]
    assert sum(answer["keys"] is not None for answer in gate.answers) <= 1


def test_a_service_that_takes_one_scan_at_a_time_is_asked_so(numbers: Registered) -> None:
    """An earlier version has no such route: scans are pruned as well, and later queries do not try again."""
    gate = numbers.trino.gate
    gate.forget()
    with gate.behaving(Behaviour(unknown="/v1/plans")):
        assert _joined(numbers, "pruned_millis") == [3, 3, 5]
    assert gate.posts == ["/v1/plans", *["/v1/plan"] * 3]
    gate.forget()
    assert _joined(numbers, "pruned_millis") == [3, 3, 5]
    assert gate.posts == ["/v1/plan"] * 3


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour(cut=True), "cannot be reached"),
        (Behaviour(seconds=3), "took too long"),
        (Behaviour(status=500), "answers 500"),
        (Behaviour(body=b"<html>\n"), "answer cannot be used"),
        (Behaviour(body=b'{"scan":0,"status":503,"error":"gone"}\n'), "answers 503"),
        (Behaviour(body=b'{"scan":7,"status":200,"plan":{}}\n'), "answer cannot be used"),
        (Behaviour(body=b'{"scan":1,"status":200,"plan":{}}\n' * 2), "answer cannot be used"),
        (Behaviour(body=b""), "answer cannot be used"),
        (Behaviour(changed={"drop": _drop(2**FILES - 1)}), "answer cannot be used"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_a_service_that_fails_for_several_scans_costs_no_row(
    numbers: Registered, behaviour: Behaviour, reason: str
) -> None:
    """Every one of them is read whole, and the log says why."""
    catalog = _catalog(behaviour)
    numbers.run("n = 1", catalog)
    before = len(numbers.trino.server.log)
    with numbers.trino.gate.behaving(behaviour):
        assert _joined(numbers, catalog) == [FILES, FILES, FILES]
    logged = numbers.trino.server.log[before:]
    assert logged.count(f"{numbers.name} is read whole") == 3
    assert reason in logged


def test_a_table_that_the_service_does_not_know_leaves_the_others_pruned(
    trino_tables: TrinoTables, numbers: Registered, tmp_path: Path
) -> None:
    """The service that is asked now knows only the second table."""
    write_plain(tmp_path / "other" / "part-0.parquet", pa.table({"n": pa.array([42, 43], pa.int64())}))
    write_plain(tmp_path / "other" / "part-1.parquet", pa.table({"n": pa.array([7, 8], pa.int64())}))
    other = trino_tables.register(tmp_path / "other", {"n": "bigint"})
    sql = (
        f"SELECT count(*) FROM {numbers.name} a JOIN {other.name} b ON a.n = b.n WHERE b.n >= 42 AND a.n > 10"
    )
    found = numbers.trino.run(sql, catalog="pruned_hive", schema=numbers.schema, session=STATIC)
    assert found.rows == [(2,)]
    assert sorted(numbers.trino.splits_by_scan(found.query_id).values()) == [1, FILES]


def test_keys_of_other_files_drop_nothing(numbers: Registered) -> None:
    """An answer may be about an entirely different path: the files that it names do not exist."""
    keys = base64.b64encode(os.urandom(16 * FILES)).decode()
    with numbers.trino.gate.behaving(Behaviour(changed={"keys": keys})):
        found = numbers.run("n = 42")
    assert (found.rows, numbers.splits(found)) == ([(1,)], FILES)


def test_a_service_that_is_not_there_costs_no_row(numbers: Registered) -> None:
    """Nothing listens on that port."""
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


def test_a_table_joined_with_itself_is_pruned_on_both_sides(numbers: Registered) -> None:
    """Trino's optimizer applies the condition on one side to the other: two equal scans, two plans."""
    sql = f"SELECT count(*) FROM {numbers.name} a JOIN {numbers.name} b ON a.n = b.n WHERE a.n BETWEEN 15 AND 34"
    found = numbers.trino.run(sql, catalog="pruned_hive", schema=numbers.schema, session=STATIC)
    assert found.rows == [(20,)]
    assert sorted(numbers.trino.splits_by_scan(found.query_id).values()) == [3, 3]


def test_fewer_bytes_are_read(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Of ten files of the same size, one is left: a tenth of the bytes, by Trino's own count."""
    for number in range(10):
        rows = pa.table(
            {"n": pa.array(range(number, 10_000, 10), pa.int64()), "m": pa.array([number] * 1000)}
        )
        write_plain(tmp_path / "lake" / f"part-{number}.parquet", rows)
    table = trino_tables.register(tmp_path / "lake", {"n": "bigint", "m": "bigint"})
    # Otherwise Trino itself would skip row groups in both catalogs by their statistics.
    read: dict[str, int] = {}
    for catalog in ("hive", "pruned_hive"):
        session = {f"{catalog}.parquet_ignore_statistics": "true"}
        sql = f"SELECT count(*), sum(n) FROM {table.name} WHERE m = 3"
        found = trino_tables.trino.run(sql, catalog=catalog, schema=table.schema, session=session)
        assert found.rows == [(1000, 4_998_000)]
        read[catalog] = found.stats["physicalInputBytes"]
    assert 0 < read["pruned_hive"] <= read["hive"] / 10


def test_scans_that_are_read_whole_are_counted_by_reason(numbers: Registered) -> None:
    """The counts of docs/trino.md, as on Trino's own metrics page."""

    before = numbers.trino.counts()
    with numbers.trino.gate.behaving(Behaviour(status=503)):
        numbers.run("n = 42")
    numbers.run("n = 42", **{"pruned_hive.pruning_enabled": "false"})
    numbers.run("n = 42")
    gained = numbers.trino.counts() - before
    gained.pop("PlanningMillis", None)
    assert gained == {
        "Scans": 2,
        "Plans": 1,
        "SplitsListed": 2 * FILES,
        "SplitsDropped": FILES - 1,
        'Unpruned_value{key="the service answers 503"}': 1,
        'Unpruned_value{key="switched off"}': 1,
    }


def test_places_may_be_written_in_several_ways(numbers: Registered) -> None:
    """The metastore spells a table's location unlike the service: the same rows from as few files."""
    definition = numbers.trino.metastore.folder / numbers.schema / numbers.name / ".trinoSchema"
    before = definition.read_text(encoding="utf-8")
    place = f"local://{numbers.root}"
    assert before.count(place) == 1
    read: list[int] = []
    for spelling in (
        f"{place}/",
        f"{place}//",
        f"local:{numbers.root}",
        f"file:{numbers.root}",
        f"file://{numbers.root}",
    ):
        definition.write_text(before.replace(place, spelling), encoding="utf-8")
        plain, pruned = (numbers.run("n = 42", catalog) for catalog in ("hive", "pruned_hive"))
        assert pruned.rows == plain.rows, spelling
        if plain.rows == [(1,)]:
            read.append(numbers.splits(pruned))
    # With the other spellings Trino itself finds no file.
    assert read == [1]


def test_statements_that_change_or_measure_a_table_pass(trino: Trino) -> None:
    """OPTIMIZE rewrites whole tables, ANALYZE measures them, DELETE drops partitions: none of them asks for a plan."""
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
    for sql in CHANGES:
        _refused_alike(trino, "managed", "hive", sql.format("m"))


def _refused_alike(trino: Trino, schema: str, catalog: str, sql: str) -> None:
    """The wrapped connector refuses with its own message, and no plan of the target is requested."""
    trino.gate.forget()
    refusals: list[str] = []
    for each in (catalog, f"pruned_{catalog}"):
        with pytest.raises(TrinoQueryError) as refused:
            trino.run(sql, catalog=each, schema=schema)
        refusals.append(refused.value.message)
    assert refusals[0] == refusals[1]
    assert trino.gate.requests == []


def test_hudi_tables_are_not_changed_by_trino(
    trino_tables: TrinoTables, hudi_table: Callable[[str], Path]
) -> None:
    """Trino's Hudi connector only reads; the pruned one refuses with the same message."""
    table = trino_tables.register(
        hudi_table("cow_v9"),
        {"id": "bigint", "n": "bigint", "city": "string"},
        partition_by="city",
        hudi=True,
    )
    for sql in CHANGES:
        _refused_alike(trino_tables.trino, table.schema, "hudi", sql.format(table.name))


def test_hudi_tables_with_wall_clocks_prune(
    trino_tables: TrinoTables, start_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    """TIMESTAMP_NTZ, for which pruner lists the files itself: the rows of the plain connector from fewer splits."""
    table = trino_tables.register(
        hudi_wall_clocks.tables(start_session).copy("cow_v9", tmp_path),
        {"id": "int", "clock": "timestamp", "seen": "timestamp", "ts": "bigint", "city": "string"},
        partition_by="city",
        hudi=True,
    )
    everything = table.run("true", catalog="pruned_hudi")
    for where in (
        "clock = TIMESTAMP '2024-03-31 04:30:00.000001'",
        "clock > TIMESTAMP '2024-04-10 00:00:00'",
        "clock IS NULL",
    ):
        pruned = table.run(where, catalog="pruned_hudi")
        assert pruned.rows == table.run(where, catalog="hudi").rows, where
        assert table.splits(pruned) < table.splits(everything), where
