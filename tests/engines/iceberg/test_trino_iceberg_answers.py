"""Counts, extremes and first rows of Iceberg tables through Trino: the rows of the stock connector, from few files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import pruner
from tests.engines.iceberg.test_trino_iceberg import FILES, SCHEMA, Ice
from tests.support.iceberg.tables import ROWS, IcebergLake, rows
from tests.support.service.gate import Behaviour
from tests.support.trino.server import Trino

pytestmark = pytest.mark.trino

ANSWERED = 1
"""Splits of an answer, which is one row."""
OFF = {"pruned_iceberg.pruning_enabled": "false"}


@pytest.fixture(scope="module")
def ice(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ice]:
    folder = tmp_path_factory.mktemp("answers")
    with ExitStack() as services:
        yield Ice(trino, IcebergLake(folder), folder / "pruner.toml", services)


def _written(ice: Ice, name: str, spec: str = "unpartitioned") -> Any:
    """Four files of 24 rows: row n is in file n / 24."""
    table = ice.lake.create(name, spec)
    for start in range(0, FILES * ROWS, ROWS):
        table.append(rows(table, range(start, start + ROWS)))
    return table


def _registered(ice: Ice, name: str, spec: str = "unpartitioned") -> str:
    """Such a table with an index on all columns, so that those with NULL are covered, too."""
    table = _written(ice, name, spec)
    pruner.open_table(table.metadata_location).create_index("stats", on="*")
    return ice.register(table, index=False)


@pytest.fixture(scope="module")
def table_(ice: Ice) -> str:
    return _registered(ice, "facts")


@pytest.fixture
def table(ice: Ice, table_: str) -> str:
    """The table, in a test that starts with the service in its first state."""
    ice.know(table_, ice.lake.catalog.load_table(f"ns.{table_}").metadata_location)
    return table_


def _check(ice: Ice, sql: str, splits: list[int] | None, answers: int) -> None:
    """Check that the rows are those of the stock connector, and how many splits are read and offers taken."""
    before = ice.trino.counts()
    found = ice.pruned(sql)
    assert found.rows == ice.stock(sql).rows, sql
    assert (ice.trino.counts() - before)["Answers"] == answers, sql
    if splits is not None:
        assert ice.splits(found) == splits, sql


@pytest.mark.parametrize(
    "select",
    [
        "count(*)",
        "count(*), count(number), count(name), count(x)",
        "min(name), max(name)",
        "min(id), max(id), min(number), max(number)",
        "min(day), max(day)",
        'min("at"), max("at"), min(wall), max(wall)',
        "min(flag), max(flag)",
        "max(id) - min(id) AS width, count(*) * 2",
    ],
)
def test_an_answer_reads_no_file(ice: Ice, table: str, select: str) -> None:
    _check(ice, f"SELECT {select} FROM {table}", [ANSWERED], 1)


# NaN, signed zeros, decimals, times, UUIDs and bytes: their order or their bounds are a different matter.
DECLINED = (
    *("max(x)", "min(small)", "max(price)", "max(clock)", "max(key)", "max(raw)"),
    *("sum(id)", "count(*), sum(id)", "count(DISTINCT number)", "max(number + 1)", "max_by(id, number)"),
    *("count(*) FILTER (WHERE id > 3)", "max(number, 2)", "count(box.a)"),
)


def test_what_is_not_certain_is_not_even_asked(ice: Ice, table: str) -> None:
    ice.trino.gate.forget()
    orders = ("x DESC", "small", "price", "clock", "key", "raw", "box.a", "-id")
    for sql in (
        *(f"SELECT {select} FROM {table}" for select in DECLINED),
        *(f"SELECT id FROM {table} ORDER BY {order}, id LIMIT 5" for order in orders),
    ):
        (plan,) = ice.pruned(f"EXPLAIN {sql}").rows[0]
        assert "answered" not in plan, sql
        assert ice.trino.gate.requests == [], sql


def test_groups_conditions_and_samples_are_declined(ice: Ice, table: str) -> None:
    """Iceberg's connector leaves a condition on a column that is not a partition's to a filter of Trino's own."""
    for tail in (
        "GROUP BY flag ORDER BY 1",
        "WHERE id >= 0",
        "HAVING max(id) > 3",
    ):
        _check(ice, f"SELECT count(*) FROM {table} {tail}", None, int("HAVING" in tail))
    _check(ice, f"SELECT count(*) FROM (SELECT * FROM {table} LIMIT 7)", None, 0)
    _check(ice, f"SELECT count(*) >= 0 FROM {table} TABLESAMPLE BERNOULLI (50)", None, 0)
    _check(ice, f"SELECT DISTINCT flag FROM {table} ORDER BY 1", None, 0)


def test_explain_says_where_an_answer_comes_from(ice: Ice, table: str) -> None:
    (plan,) = ice.pruned(f"EXPLAIN SELECT count(*), max(id) FROM {table}").rows[0]
    assert f"{SCHEMA}.{table}: answered from metadata of 4 files" in plan
    for kind in ("(TYPE IO)", "(TYPE LOGICAL, FORMAT JSON)", "(TYPE VALIDATE)", "ANALYZE"):
        assert ice.pruned(f"EXPLAIN {kind} SELECT count(*), max(id) FROM {table}").rows


@pytest.mark.parametrize(
    ("order", "limit", "files"),
    [
        ("id DESC", 10, 1),
        ("id", 24, 1),
        # One row more than a file holds.
        ("id DESC", 25, 2),
        ("id DESC", 95, 4),
        ('"at" DESC NULLS LAST, id', 10, 1),
        ("wall", 3, 1),
        ("day NULLS LAST, id", 5, 1),
        # NULL is in each file, and sorts first.
        ("number NULLS FIRST, id", 5, 4),
        ("number DESC NULLS LAST, id", 10, 1),
        ("name, id", 5, 4),
    ],
)
def test_first_rows_are_in_few_files(ice: Ice, table: str, order: str, limit: int, files: int) -> None:
    sql = f"SELECT id, number FROM {table} ORDER BY {order} LIMIT {limit}"
    _check(ice, sql, [files], int(files < FILES))


def test_rows_with_the_value_of_the_threshold_are_kept(ice: Ice) -> None:
    """The next key of the order decides among them, wherever they are."""
    name = _registered(ice, "ties")
    ice.stock(f"INSERT INTO {name} (id, number) VALUES (-5, 605), (-6, 605), (-7, NULL)")
    _check(ice, f"SELECT id FROM {name} ORDER BY number DESC NULLS LAST, id LIMIT 3", [2], 1)
    _check(ice, f"SELECT id, number FROM {name} ORDER BY number DESC NULLS FIRST, id LIMIT 40", None, 0)


def test_several_scans_of_one_statement(ice: Ice, table: str) -> None:
    """Each has its own limit, in its own handle."""
    first, last = (f"(SELECT id FROM {table} ORDER BY id {way})" for way in ("LIMIT 3", "DESC LIMIT 30"))
    _check(ice, f"SELECT * FROM ({first} UNION ALL {last}) ORDER BY 1", [1, 2], 2)
    both = f"(SELECT id, id AS k FROM {table} UNION ALL SELECT id, id + 0 FROM {table} WHERE flag)"
    _check(ice, f"SELECT id, k FROM {both} ORDER BY k DESC, id LIMIT 30", None, 1)
    _check(ice, f"SELECT id FROM {table} ORDER BY id DESC OFFSET 20 LIMIT 10", [2], 1)
    ties = f"SELECT id FROM {table} ORDER BY flag FETCH FIRST 1 ROW WITH TIES"
    _check(ice, f"SELECT count(*), max(id) FROM ({ties})", None, 0)
    _check(ice, f"SELECT count(*), sum(a.id) FROM {first} a JOIN {table} b ON a.id = b.id + 40", None, 1)
    _check(ice, f"SELECT id FROM {table} WHERE id = (SELECT max(id) FROM {table})", None, 1)
    _check(ice, f"SELECT count(*) FROM {table} WHERE id IN {first}", None, 1)
    _check(
        ice,
        f"SELECT a.n, b.n FROM (SELECT count(*) n FROM {table}) a, (SELECT max(id) n FROM {table}) b",
        None,
        2,
    )
    _check(
        ice, f"WITH t AS (SELECT count(*) n FROM {table}) SELECT * FROM t UNION ALL SELECT * FROM t", None, 1
    )
    outer = f"SELECT a.id, b.id FROM {table} a LEFT JOIN {table} b ON a.id = b.id + 90 ORDER BY a.id DESC LIMIT 30"
    _check(ice, outer, None, 1)


def test_views_and_prepared_statements(ice: Ice, table: str) -> None:
    ice.pruned(f"CREATE VIEW latest AS SELECT id FROM {table} ORDER BY id DESC LIMIT 5")
    ice.pruned(f"CREATE VIEW extent AS SELECT count(*) n, max(id) m FROM {table}")
    last = FILES * ROWS - 1
    found = ice.pruned("SELECT count(*), max(id), min(id) FROM latest")
    assert (found.rows, ice.splits(found)) == ([(5, last, last - 4)], [1])
    found = ice.pruned("SELECT n, m FROM extent")
    assert (found.rows, ice.splits(found)) == ([(last + 1, last)], [ANSWERED])
    connection = ice.trino.client.connect(catalog="pruned_iceberg", schema=SCHEMA)
    cursor = connection.cursor()
    cursor.execute(f"SELECT max(id) + ? FROM {table}", (5,))
    assert [tuple(row) for row in cursor.fetchall()] == [(FILES * ROWS + 4,)]
    cursor.execute(f"SHOW STATS FOR (SELECT * FROM {table} WHERE id > 3)")
    assert cursor.fetchall()


def test_answers_are_of_the_snapshot_that_is_scanned(ice: Ice) -> None:
    """After commits, in the past, and with deleted rows; the index is older than all of these."""
    name = _registered(ice, "followed")
    newest = f'SELECT snapshot_id FROM "{name}$snapshots" ORDER BY committed_at DESC LIMIT 1'
    first = ice.stock(newest).rows[0][0]
    every = "SELECT count(*), count(number), max(id) FROM"
    latest = f"FROM {name} ORDER BY id DESC LIMIT 5"
    _check(ice, f"{every} {name}", [ANSWERED], 1)
    ice.stock(f"INSERT INTO {name} (id, number) VALUES (1000, NULL), (1001, 2)")
    # For a file without a record, the manifest has the number of rows; its bounds may be wider than the values.
    _check(ice, f"SELECT count(*) FROM {name}", [ANSWERED], 1)
    _check(ice, f"SELECT max(id) FROM {name}", [5], 0)
    _check(ice, f"SELECT id {latest}", [2], 1)
    ice.stock(f"DELETE FROM {name} WHERE id IN (1001, 3)")
    _check(ice, f"{every} {name}", [5], 0)
    _check(ice, f"SELECT id {latest}", None, 1)
    _check(ice, f"{every} {name} FOR VERSION AS OF {first}", [ANSWERED], 1)
    _check(ice, f"SELECT id FROM {name} FOR VERSION AS OF {first} ORDER BY id LIMIT 5", [1], 1)
    ice.stock(f"ALTER TABLE {name} RENAME COLUMN id TO key_")
    ice.stock(f"ALTER TABLE {name} RENAME COLUMN number TO id")
    _check(ice, f"SELECT max(key_), count(id) FROM {name}", [5], 0)
    _check(ice, f"{every} {name} FOR VERSION AS OF {first}", [ANSWERED], 1)
    ice.stock(f"ALTER TABLE {name} ADD COLUMN later BIGINT")
    _check(ice, f"SELECT later FROM {name} ORDER BY later LIMIT 5", None, 0)


def test_conditions_that_iceberg_enforces(ice: Ice) -> None:
    """Partitions of a value, and of a month: everything in the handle is part of the request."""
    name = _registered(ice, "parts", "months")
    month = "day >= DATE '1970-03-01'"
    _check(ice, f"SELECT count(*), max(id) FROM {name} WHERE {month}", [ANSWERED], 1)
    _check(ice, f"SELECT count(*), max(id) FROM {name} WHERE day >= DATE '1970-03-05'", None, 0)
    _check(ice, f"SELECT id FROM {name} WHERE {month} ORDER BY id LIMIT 5", None, 1)
    _check(ice, f"SELECT count(*), min(id) FROM {name} WHERE day IS NULL", [ANSWERED], 1)


def _made_by_trino(ice: Ice, name: str, columns: str, rows_of_files: list[str]) -> None:
    """A table partitioned by its last column, indexed, and known by its newest metadata."""
    place = ice.config.parent / name
    ice.stock(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    ice.stock(f"CREATE TABLE {name} ({columns}) WITH (location = 'file:{place}', partitioning = ARRAY['k'])")
    for values in rows_of_files:
        ice.stock(f"INSERT INTO {name} VALUES {values}")
    newest = max((place / "metadata").glob("*.metadata.json"))
    pruner.open_table(str(newest)).create_index("stats", on="*")
    ice.know(name, str(newest))


def test_a_condition_longer_than_what_is_sent_is_not_asked_about(ice: Ice) -> None:
    """A range that spans its values would suffice for pruning, but would count rows between them."""
    parts = [f"({10 * k}, {k}), ({10 * k + 1}, {k})" for k in range(6)]
    _made_by_trino(ice, "listed", "id BIGINT, k INTEGER", parts)
    # All rows of the two listed partitions are among the first three.
    for way, most, narrowed in (("IN", 1_000, 0), ("NOT IN", 999, 1)):
        for many in (most, most + 1):
            values = ", ".join(str(value) for value in (0, 5, *range(100, 100 + 2 * (many - 2), 2)))
            where = f"FROM listed WHERE k {way} ({values})"
            _check(ice, f"SELECT count(*), max(id), min(id) {where}", None, int(many == most))
            for direction in ("ASC", "DESC"):
                _check(
                    ice, f"SELECT id {where} ORDER BY id {direction} LIMIT 3", None, narrowed * (many == most)
                )


def test_conditions_on_floating_point_are_not_asked_about(ice: Ice) -> None:
    """Trino writes infinity as 0 into a partition's value, and reads the column from there; the files have infinity."""
    values = ("infinity()", "-infinity()", "DOUBLE '-0.0'", "3e0", "4e0")
    _made_by_trino(
        ice, "endless", "id BIGINT, k DOUBLE", [f"({n}, {value})" for n, value in enumerate(values)]
    )
    for where in ("k > 2", "k > 3", "k = -0e0", "k BETWEEN -0e0 AND 0e0", "k < 0"):
        _check(ice, f"SELECT id FROM endless WHERE {where} ORDER BY id LIMIT 2", None, 0)
        _check(ice, f"SELECT count(*) FROM endless WHERE {where}", None, 0)


def test_statements_that_write_what_they_have_read(ice: Ice, table: str) -> None:
    """The connector is given the tables that a statement has read: its own handles, not ours."""
    ice.stock("CREATE TABLE IF NOT EXISTS sums (n BIGINT)")
    ice.pruned(f"INSERT INTO sums SELECT count(*) FROM {table}")
    ice.pruned(f"INSERT INTO sums SELECT id FROM {table} ORDER BY id DESC LIMIT 2")
    ice.pruned(
        f"MERGE INTO sums t USING (SELECT max(id) n FROM {table}) s ON t.n = s.n WHEN MATCHED THEN DELETE"
    )
    ice.pruned(f"DELETE FROM sums WHERE n = (SELECT max(id) - 1 FROM {table})")
    ice.pruned(f"CREATE TABLE made AS SELECT count(*) n, max(id) m FROM {table}")
    assert ice.stock("SELECT n FROM sums").rows == [(FILES * ROWS,)]
    assert ice.stock("SELECT n, m FROM made").rows == [(FILES * ROWS, FILES * ROWS - 1)]


def test_a_materialized_view_is_refreshed_whole(ice: Ice) -> None:
    name = _registered(ice, "refreshed")
    ice.pruned(f"CREATE MATERIALIZED VIEW counted AS SELECT count(*) n, max(id) m FROM {name}")
    ice.pruned("REFRESH MATERIALIZED VIEW counted")
    assert ice.pruned("SELECT n, m FROM counted").rows == [(FILES * ROWS, FILES * ROWS - 1)]
    ice.stock(f"INSERT INTO {name} (id) VALUES (1000)")
    ice.pruned("REFRESH MATERIALIZED VIEW counted")
    assert ice.pruned("SELECT n, m FROM counted").rows == [(FILES * ROWS + 1, 1000)]


def test_a_filter_on_partitions_stays_required(ice: Ice) -> None:
    """A threshold of the plugin's own does not count as one."""
    name = _registered(ice, "strict", "years")
    session = {"pruned_iceberg.query_partition_filter_required": "true"}
    for sql in (f"SELECT id FROM {name} ORDER BY wall LIMIT 3", f"SELECT count(*) FROM {name}"):
        with pytest.raises(Exception, match="[Ff]ilter required"):
            ice.pruned(sql, **session)


def test_a_session_without_pruning_asks_nothing(ice: Ice, table: str) -> None:
    for sql in (f"SELECT count(*) FROM {table}", f"SELECT id FROM {table} ORDER BY id LIMIT 3"):
        found = ice.pruned(sql, **OFF)
        assert (found.rows, ice.splits(found)) == (ice.stock(sql).rows, [FILES])
    assert ice.trino.gate.requests == []


def test_of_a_few_files_nothing_is_asked(ice: Ice, table: str) -> None:
    """Reading them takes as long as a request; the other catalogs of these tests send one from the first file on."""
    for sql in (f"SELECT count(*) FROM {table}", f"SELECT id FROM {table} ORDER BY id LIMIT 3"):
        ice.trino.gate.forget()
        found = ice.pruned(sql, "pruned_iceberg_waiting")
        assert (found.rows, ice.splits(found)) == (ice.stock(sql).rows, [FILES])
        assert ice.trino.gate.requests == []


def test_each_offer_is_one_question(ice: Ice, table: str) -> None:
    """The optimizer makes the same offer many times; an unanswered one is not sent again either."""
    for select in ("count(*)", "max(name)", "count(key)"):
        ice.pruned(f"SELECT {select} FROM {table}")
        ice.trino.gate.forget()
        ice.pruned(f"SELECT {select} FROM {table} UNION ALL SELECT {select} FROM {table}")
        assert ice.trino.gate.posts == ["/v1/answers"], select


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(cut=True),
        Behaviour(status=503),
        Behaviour(body=b"<html>"),
        Behaviour(body=b'{"table": "facts", "told": "", "values": [{"type": "int64", "value": null}]}'),
        Behaviour(body=b'{"table": "facts", "told": "", "values": [{"type": "string", "value": "3"}]}'),
        Behaviour(body=b'{"table": "facts", "told": "", "values": []}'),
        Behaviour(unknown="/v1/answers"),
    ],
)
def test_a_service_that_fails_declines(ice: Ice, table: str, behaviour: Behaviour) -> None:
    """Also one of an earlier version, which lacks this route: it is not asked again for a while."""
    with ice.trino.gate.behaving(behaviour):
        found = ice.pruned(f"SELECT count(*) FROM {table}", "pruned_iceberg_failing")
        assert (found.rows, ice.splits(found)) == ([(FILES * ROWS,)], [FILES])
        if behaviour.unknown:
            ice.trino.gate.forget()
            found = ice.pruned(f"SELECT count(*) FROM {table}", "pruned_iceberg_failing")
            assert (found.rows, ice.trino.gate.requests) == ([(FILES * ROWS,)], [])
