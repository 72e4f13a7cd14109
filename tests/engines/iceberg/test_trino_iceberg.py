"""Iceberg tables through Trino: the rows of the stock connector, from the files that the planner keeps.

pyiceberg and Trino itself write the tables. Trino's catalog alone knows their newest metadata; the service is given it
with each scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from trino.exceptions import TrinoQueryError

import pruner
from tests.support.iceberg.tables import ROWS, SPECS, IcebergLake, rows
from tests.support.running import profiles
from tests.support.service.gate import Behaviour
from tests.support.service.planner import running_service
from tests.support.trino.server import STATIC, Trino
from tools.trino.client import Result

pytestmark = pytest.mark.trino

FILES = 4
CONDITIONS = (
    "id = 30",
    "id IN (3, 40, 55)",
    "number < -20",
    "number IS NULL",
    "number IS NOT NULL AND number % 2 = 0",
    "small = REAL '0'",
    "small > 3",
    "x > 5",
    "is_nan(x)",
    "NOT x < 3",
    "price BETWEEN 0 AND 1.5",
    "day < DATE '1970-01-01'",
    "day >= DATE '1970-05-01'",
    "year(day) = 1970 AND month(day) = 3",
    "\"at\" < TIMESTAMP '1970-01-02 00:00:00 UTC'",
    "\"at\" > TIMESTAMP '1970-01-12 03:00:00 Asia/Kathmandu'",
    "wall >= TIMESTAMP '1970-01-10 00:00:00'",
    "clock > TIME '20:00:00'",
    "name LIKE 'Ä%'",
    "name >= 'z'",
    "name = 'Zlang und breit lang und breit lang und breit 002'",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "raw = X'05FF05'",
    "box.a > 60",
    "box.b IS NULL",
    "box.a > 60 OR id = 3",
    "id > 20 OR number IS NULL",
    "lower(name) = 'zlang und breit lang und breit lang und breit 002'",
    "many IS NULL",
    "cardinality(many) = 3",
)
SCHEMA = "lake"


@dataclass
class Ice:
    """The tables of one folder, which a service knows by their locations, and a server that reads them."""

    trino: Trino
    lake: IcebergLake
    config: Path
    services: ExitStack

    def register(self, table: Any, *, index: bool = True) -> str:
        """Register a table with Trino as pyiceberg left it, and with a service in its current state."""
        name = str(table.name()[-1])
        if index:
            opened = pruner.open_table(table.metadata_location)
            opened.create_index("names", on="name", using="bitmap")
        place = table.location()
        self.stock("CREATE SCHEMA IF NOT EXISTS lake")
        self.stock(f"CALL iceberg.system.register_table('{SCHEMA}', '{name}', '{place}')")
        self.know(name, table.metadata_location)
        return name

    def know(self, name: str, metadata: str, alias: str | None = None) -> None:
        """Point the gate at a service that knows a table by a metadata file."""
        aliases = f'aliases = ["pruned_iceberg.{SCHEMA}.{alias}"]\n' if alias else ""
        self.serve(f'[tables.{name}]\nuri = "{metadata.removeprefix("file://")}"\n{aliases}')

    def serve(self, text: str) -> None:
        """Point the gate at a service with a configuration."""
        self.services.close()
        self.config.write_text(text, encoding="utf-8")
        self.trino.gate.target = self.services.enter_context(running_service(self.config))
        self.trino.gate.forget()

    def stock(self, sql: str) -> Result:
        """Run a statement through the stock connector."""
        return self.trino.run(sql, catalog="iceberg", schema=SCHEMA)

    def pruned(self, sql: str, catalog: str = "pruned_iceberg", **session: str) -> Result:
        """Run a statement through the pruned one; without dynamic filters, whose arrival time varies."""
        return self.trino.run(sql, catalog=catalog, schema=SCHEMA, session={**STATIC, **session})

    def splits(self, result: Result) -> list[int]:
        """The number of splits that each scan of a query has read."""
        return sorted(self.trino.splits_by_scan(result.query_id).values())


@pytest.fixture(scope="module")
def ice(trino: Trino, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ice]:
    folder = tmp_path_factory.mktemp("iceberg")
    with ExitStack() as services:
        yield Ice(trino, IcebergLake(folder), folder / "pruner.toml", services)


def _written(ice: Ice, name: str, spec: str = "unpartitioned") -> Any:
    table = ice.lake.create(name, spec, 2)
    for start in range(0, FILES * ROWS, ROWS):
        table.append(rows(table, range(start, start + ROWS)))
    return table


def _truth(ice: Ice, name: str, conditions: Sequence[str]) -> list[set[int]]:
    """For each condition, the rows for which it is true, from a query that filters nothing and so skips nothing."""
    columns = ", ".join(f"({text}) AS c{number}" for number, text in enumerate(conditions))
    found = ice.stock(f"SELECT id, {columns} FROM {name}").rows
    return [{row[0] for row in found if row[number + 1]} for number in range(len(conditions))]


@pytest.mark.parametrize("spec", SPECS)
def test_rows_are_those_of_the_stock_connector(ice: Ice, spec: str) -> None:
    """Whatever the partitions are; the splits that are read are those of the plan, or of Iceberg's own planning."""
    written = _written(ice, spec, spec)
    written.delete("id = 7 or id = 50")
    name = ice.register(written)
    conditions = CONDITIONS if spec == "months" else CONDITIONS[sorted(SPECS).index(spec) :: len(SPECS)]
    for condition, expected in zip(conditions, _truth(ice, name, conditions), strict=True):
        ice.trino.gate.forget()
        found = ice.pruned(f"SELECT id FROM {name} WHERE {condition}")
        assert sorted(row[0] for row in found.rows) == sorted(expected), condition
        (answer,) = ice.trino.gate.answers
        assert ice.splits(found)[0] <= max(answer["kept"], 1), condition


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("id = 30", 1),
        ("id > 40", 3),
        ("x > 5", 2),
        # By the index alone: in each file, names span nearly the whole range.
        ("name = 'Zlang und breit lang und breit lang und breit 002'", 1),
        ("name IN ('Zlang und breit lang und breit lang und breit 002', 'none')", 1),
        ("lower(name) = 'nobody'", 0),
        # pyiceberg leaves bounds inside structs out of its manifests.
        ("box.a > 60", FILES),
        ("day >= DATE '1970-05-01'", 2),
        ("year(day) = 1970 AND month(day) = 3", 1),
        ("\"at\" < TIMESTAMP '1970-01-02 00:00:00 UTC'", 1),
        # Kathmandu is 5:45 ahead: in UTC this is not later than the end of the third file.
        ("\"at\" < TIMESTAMP '1970-01-14 04:14:00 Asia/Kathmandu'", 3),
        ("wall >= TIMESTAMP '1970-01-10 00:00:00'", 3),
    ],
)
def test_as_many_files_are_kept_as_can_be_proved(ice: Ice, numbers: str, condition: str, kept: int) -> None:
    (answer,) = _answers(ice, numbers, condition)
    assert (answer["kept"], answer["total"]) == (kept, FILES)


def _answers(ice: Ice, name: str, condition: str, version: str = "") -> list[Any]:
    """The service's answers to a query, whose rows and splits must be right."""
    ice.trino.gate.forget()
    sql = f"SELECT id FROM {name} {version} WHERE {condition}"
    plain, found = ice.stock(sql), ice.pruned(sql)
    assert sorted(plain.rows) == sorted(found.rows), sql
    answers = list(ice.trino.gate.answers)
    if answers and "kept" in answers[0]:
        assert ice.splits(found)[0] <= max(answers[0]["kept"], 1), sql
    else:
        assert ice.splits(found) == ice.splits(plain), sql
    return answers


@pytest.fixture(scope="module")
def numbers_(ice: Ice) -> str:
    """Four files: row n is in file n / 24."""
    return ice.register(_written(ice, "numbers"))


@pytest.fixture
def numbers(ice: Ice, numbers_: str) -> str:
    """The same table, in a test that starts with the service in its first state."""
    ice.know(numbers_, ice.lake.catalog.load_table(f"ns.{numbers_}").metadata_location)
    return numbers_


def _kept(ice: Ice, name: str, condition: str, version: str = "") -> tuple[int, int]:
    (answer,) = _answers(ice, name, condition, version)
    return answer["kept"], answer["total"]


def test_the_plan_is_of_the_snapshot_and_schema_that_trino_scans(ice: Ice) -> None:
    """Trino changes the table, while the service was given one metadata file, which is long outdated."""
    name = ice.register(_written(ice, "moving"))
    first = ice.stock(f'SELECT snapshot_id FROM "{name}$snapshots" ORDER BY committed_at DESC LIMIT 1').rows[
        0
    ][0]
    assert _kept(ice, name, "id = 30") == (1, 4)
    ice.stock(f"INSERT INTO {name} (id, number) VALUES (30, 1), (1000, 2)")
    assert _kept(ice, name, "id = 30") == (2, 5)
    assert _kept(ice, name, "id = 1000") == (1, 5)
    assert _kept(ice, name, "id = 1000", f"FOR VERSION AS OF {first}") == (0, 4)
    ice.stock(f"DELETE FROM {name} WHERE id IN (29, 30)")
    assert _kept(ice, name, "id = 30") == (2, 5)
    assert _kept(ice, name, "id = 30", f"FOR VERSION AS OF {first}") == (1, 4)
    # Names swap: by name alone, plans of the old snapshot and the new one would be exchanged.
    ice.stock(f"ALTER TABLE {name} RENAME COLUMN id TO was_id")
    ice.stock(f"ALTER TABLE {name} RENAME COLUMN number TO id")
    assert _kept(ice, name, "id = 2") == (2, 5)
    assert _kept(ice, name, "was_id = 55") == (2, 5)
    assert _kept(ice, name, "was_id = 20") == (1, 5)
    assert _kept(ice, name, "id = 30", f"FOR VERSION AS OF {first}") == (1, 4)
    ice.stock(f"ALTER TABLE {name} DROP COLUMN was_id")
    ice.stock(f"ALTER TABLE {name} ADD COLUMN was_id BIGINT")
    assert _kept(ice, name, "was_id = 30") == (5, 5)
    assert _kept(ice, name, "id = 30", f"FOR VERSION AS OF {first}") == (1, 4)


def test_partitions_evolve(ice: Ice) -> None:
    name = ice.register(_written(ice, "evolving", "buckets"))
    ice.stock(f"ALTER TABLE {name} SET PROPERTIES partitioning = ARRAY['truncate(id, 10)', 'day(\"at\")']")
    ice.stock(
        f"INSERT INTO {name} (id, number, \"at\") VALUES (101, 7, TIMESTAMP '2024-03-31 01:00:00 UTC'), "
        "(119, 7, TIMESTAMP '2024-04-02 01:00:00 UTC')"
    )
    for condition in ("id = 101", "id >= 100", "number = 7", "\"at\" > TIMESTAMP '2024-04-01 00:00:00 UTC'"):
        ((answer,),) = (_answers(ice, name, condition),)
        assert answer["kept"] < answer["total"], condition
    assert _kept(ice, name, "id = 119")[0] == 1
    assert _kept(ice, name, "\"at\" > TIMESTAMP '2024-04-01 00:00:00 UTC'")[0] == 1


LITERALS = {
    "key": ("0", "17", "40", "95", "101", "-1"),
    "number": ("-60", "0", "108", "270", "7"),
    "small": ("REAL '0'", "REAL '0.1'", "CAST(nan() AS REAL)", "REAL '3.5'"),
    "x": ("0e0", "-9e0", "nan()", "7.25e0", "1e300"),
    "price": ("0.000", "-4.000", "1.125", "91"),
    "day": ("DATE '1970-01-01'", "DATE '1969-12-31'", "DATE '1970-06-03'", "DATE '2300-01-01'"),
    '"at"': (
        "TIMESTAMP '1970-01-03 12:00:00.000006 UTC'",
        "TIMESTAMP '1969-12-30 12:00:00 UTC'",
        "TIMESTAMP '1970-01-10 01:00:00 America/New_York'",
    ),
    "wall": ("TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '1970-01-20 07:00:00.5'"),
    "clock": ("TIME '00:30:00'", "TIME '23:30:00.000023'"),
    "name": (
        "'Zlang und breit lang und breit lang und breit 002'",
        "'Älang'",
        "'z'",
        # An empty text among others is an error of Trino's own where names are partitioned by `truncate`.
        "'M'",
    ),
    "flag": ("true", "false"),
    "raw": ("X'05FF05'", "X''", "X'FF'"),
    "box.a": ("0", "33", "90"),
    "box.b": ("'b3'", "'b90'", "'c'"),
    "added": ("1", "119"),
}
"""Values to compare columns with: inside, outside and at the ends of the ranges in the files."""

WRAPPED = {
    "key": ("key % 7", "key + 1"),
    "number": ("abs(number)", "coalesce(number, 7)"),
    "name": ("lower(name)", "substr(name, 1, 5)", "reverse(name)"),
    "day": ("date_trunc('month', day)",),
    '"at"': ("date_trunc('day', \"at\")",),
}
AT_ONCE = 25
"""Conditions per statement, each in a scan of its own."""


def _condition(random: Random, depth: int = 2) -> str:
    if depth and random.random() < 0.5:
        left, right = _condition(random, depth - 1), _condition(random, depth - 1)
        return random.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
    name = random.choice(list(LITERALS))
    first, second = (random.choice(LITERALS[name]) for _ in range(2))
    side = random.choice(WRAPPED[name]) if name in WRAPPED and random.random() < 0.25 else name
    operator = random.choice(("=", "<>", "<", "<=", ">", ">="))
    forms = [
        f"{side} {operator} {first}",
        f"{side} {operator} {first}",
        f"{side} IN ({first}, {second})",
        f"{side} NOT IN ({first}, {second})",
        f"{side} BETWEEN {first} AND {second}",
        f"{side} IS {random.choice(('', 'NOT '))}NULL",
        f"{side} IS {random.choice(('', 'NOT '))}DISTINCT FROM {first}",
    ]
    if name == "name":
        forms.append(f"name LIKE '{random.choice(('Ä%', 'Zlang%00_', '%5', 'z%'))}'")
    return random.choice(forms)


@pytest.fixture(scope="module")
def evolved(ice: Ice) -> str:
    """A table whose columns, partitions and rows have changed."""
    name = ice.register(_written(ice, "evolved", "buckets"))
    place = '"at"'
    for sql in (
        f"ALTER TABLE {name} RENAME COLUMN id TO key_",
        f"ALTER TABLE {name} DROP COLUMN key",
        f"ALTER TABLE {name} RENAME COLUMN key_ TO key",
        f"ALTER TABLE {name} RENAME COLUMN name TO x_",
        f"ALTER TABLE {name} RENAME COLUMN x_ TO name",
        f"DELETE FROM {name} WHERE key IN (5, 40, 41)",
        f"ALTER TABLE {name} SET PROPERTIES partitioning = ARRAY['day({place})', 'truncate(name, 2)']",
        f"ALTER TABLE {name} ADD COLUMN added INTEGER",
        f"ALTER TABLE {name} ALTER COLUMN number SET DATA TYPE BIGINT",
        f"INSERT INTO {name} SELECT key + 100, number, small, x, price, day, {place}, wall, clock, name, flag, raw, "
        f"box, many, CAST(key AS INTEGER) FROM {name} WHERE key < 20",
        f"UPDATE {name} SET number = NULL WHERE key = 60",
        f"DELETE FROM {name} WHERE key IN (8, 104)",
    ):
        ice.stock(sql)
    return name


def _counts(ice: Ice, name: str, conditions: Sequence[str], expected: Sequence[int]) -> dict[int, int]:
    """How many rows the pruned connector finds by each condition, or the expected number where both fail alike."""
    scans = (f"SELECT {number}, count(*) FROM {name} WHERE {text}" for number, text in enumerate(conditions))
    try:
        return dict(ice.pruned(" UNION ALL ".join(scans)).rows)
    except TrinoQueryError:
        # Trino's own connector fails on some conditions; running them one at a time shows which.
        found: dict[int, int] = {}
        for number, text in enumerate(conditions):
            sql = f"SELECT count(*) FROM {name} WHERE {text}"
            outcome = _outcome(ice.pruned, sql)
            if isinstance(outcome, str):
                assert outcome == _outcome(ice.stock, sql), text
            found[number] = expected[number] if isinstance(outcome, str) else outcome
        return found


def _outcome(run: Callable[[str], Result], sql: str) -> int | str:
    """A count, or the name of the error."""
    try:
        return int(run(sql).rows[0][0])
    except TrinoQueryError as error:
        return str(error.error_name)


def _count(ice: Ice, name: str, condition: str) -> int:
    """How many more rows the stock connector finds than the pruned one."""
    sql = f"SELECT count(*) FROM {name} WHERE {condition}"
    return ice.stock(sql).rows[0][0] - ice.pruned(sql).rows[0][0]


def test_random_conditions_lose_nothing(ice: Ice, evolved: str) -> None:
    """A query that skips nothing counts the rows that match; most conditions leave files out."""
    ice.know(evolved, ice.lake.catalog.load_table(f"ns.{evolved}").metadata_location)
    random = Random(profiles.seed())
    conditions = [_condition(random) for _ in range(profiles.examples(300))]
    before = ice.trino.counts()
    for start in range(0, len(conditions), AT_ONCE):
        some = conditions[start : start + AT_ONCE]
        counts = ", ".join(f"count_if({text})" for text in some)
        expected = ice.stock(f"SELECT {counts} FROM {evolved}").rows[0]
        found = _counts(ice, evolved, some, expected)
        differing = [text for number, text in enumerate(some) if found[number] != expected[number]]
        # A filter of Trino's own may differ where values are NaN: `small IN (nan(), 3.5)`.
        lost = [text for text in differing if "nan()" not in text or _count(ice, evolved, text)]
        assert not lost, lost
    gained = ice.trino.counts() - before
    # A scan without a plan reads everything: there is none, except for conditions that Trino itself finds false.
    assert gained["Plans"] == gained["Scans"] > len(conditions) / 2
    assert gained["SplitsDropped"] > len(conditions)


def test_every_kind_of_change_is_trino_s_own(ice: Ice) -> None:
    """The target of a change, OPTIMIZE and ANALYZE send no request; other tables that they read are pruned."""
    name = ice.register(_written(ice, "changing"))
    other = ice.register(_written(ice, "others"))
    ice.know(name, ice.lake.catalog.load_table("ns.changing").metadata_location)
    ice.trino.gate.forget()
    for sql in (
        f"DELETE FROM {name} WHERE id % 24 = 5",
        f"UPDATE {name} SET number = 99 WHERE id = 40",
        f"MERGE INTO {name} t USING {other} s ON t.id = s.id + 1 WHEN MATCHED AND s.id = 60 THEN DELETE "
        "WHEN MATCHED AND s.id = 61 THEN UPDATE SET number = 98",
        f"ANALYZE {name}",
        f"ALTER TABLE {name} EXECUTE optimize",
    ):
        before = ice.trino.counts()
        ice.pruned(sql)
        gained = ice.trino.counts() - before
        assert [asked for asked in ice.trino.gate.requests if f".{name}" in asked["table"]] == [], sql
        assert "ANALYZE" in sql or any("bypassed" in reason for reason in gained) or "Scans" not in gained, (
            sql
        )
    found = ice.stock(f"SELECT count(*), count_if(number = 99), count_if(number = 98) FROM {name}").rows
    assert found == [(4 * ROWS - 5, 1, 1)]


def test_what_is_not_rows_of_a_table_is_not_asked_for(ice: Ice, numbers: str) -> None:
    first = f'(SELECT min(snapshot_id) FROM "{numbers}$snapshots")'
    for sql in (
        f'SELECT count(*) FROM "{numbers}$files" WHERE record_count > 3',
        f'SELECT count(*) FROM "{numbers}$history" WHERE is_current_ancestor',
        f'SELECT count(*) FROM "{numbers}$partitions"',
        f"SELECT snapshot_id > 0 FROM \"{numbers}$refs\" WHERE name = 'main'",
        f'SELECT count(*) > 0 OR {first} IS NULL FROM "{numbers}$manifests"',
    ):
        assert ice.pruned(sql).rows == ice.stock(sql).rows
    assert ice.trino.gate.requests == []
    ids = [
        row[0]
        for row in ice.stock(f'SELECT snapshot_id FROM "{numbers}$snapshots" ORDER BY committed_at').rows
    ]
    changes = f"TABLE(system.table_changes('{SCHEMA}', '{numbers}', {ids[0]}, {ids[-1]}))"
    sql = f"SELECT count(*) FROM {changes} WHERE id = 30"
    assert ice.pruned(sql).rows == ice.stock(sql).rows == [(1,)]
    assert ice.trino.gate.requests == []


def test_hidden_columns_prune_nothing_and_leave_the_rest(ice: Ice, numbers: str) -> None:
    (file,) = ice.stock(f'SELECT DISTINCT "$path" FROM {numbers} WHERE id = 30').rows[0]
    assert _kept(ice, numbers, f"\"$path\" = '{file}' AND x < -5") == (1, 4)
    assert _answers(ice, numbers, f"\"$path\" = '{file}'")[0]["kept"] == 4


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (Behaviour(cut=True), "cannot be reached"),
        (Behaviour(status=503), "answers 503"),
        (Behaviour(body=b"<html>"), "answer cannot be used"),
        (Behaviour(changed={"total": 3}), "answer cannot be used"),
        (Behaviour(changed={"keys": None, "snapshot_id": "another"}), "answers 404"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_a_service_that_fails_costs_no_row(ice: Ice, numbers: str, behaviour: Behaviour, reason: str) -> None:
    before = len(ice.trino.server.log)
    with ice.trino.gate.behaving(behaviour):
        found = ice.pruned(f"SELECT id FROM {numbers} WHERE name LIKE 'Z%002'", "pruned_iceberg_failing")
    assert [row[0] for row in found.rows] == [6]
    assert ice.splits(found) == [FILES]
    assert reason in ice.trino.server.log[before:]


def test_a_service_that_knows_another_table_costs_no_row(ice: Ice, numbers: str) -> None:
    """Two tables of one name: the one that the service was given does not have Trino's snapshot."""
    other = _written(ice, "elsewhere")
    ice.know("elsewhere", other.metadata_location, alias=numbers)
    found = ice.pruned(f"SELECT id FROM {numbers} WHERE name LIKE 'Z%002'")
    assert ([row[0] for row in found.rows], ice.splits(found)) == ([6], [FILES])
    (asked,) = ice.trino.gate.requests
    assert asked["as_of"].count("@") == 2


def test_dynamic_filters_prune(ice: Ice, numbers: str) -> None:
    """The values on the other side of a join are a predicate of the scan: this catalog waits for them."""
    name = "Zlang und breit lang und breit lang und breit 002"
    sql = f"SELECT count(*) FROM {numbers} a JOIN (VALUES '{name}', 'none') b (n) ON a.name = b.n"
    session = {"enable_dynamic_filtering": "true"}
    found = ice.pruned(sql, "pruned_iceberg_waiting", **session)
    assert (found.rows, ice.splits(found)) == ([(1,)], [1])


def test_a_table_joined_with_its_past(ice: Ice) -> None:
    """Two scans of one table at two snapshots, planned with one request, each for its own snapshot."""
    name = ice.register(_written(ice, "past"))
    first = ice.stock(f'SELECT snapshot_id FROM "{name}$snapshots" ORDER BY committed_at DESC LIMIT 1').rows[
        0
    ][0]
    ice.stock(f"INSERT INTO {name} (id, number) VALUES (30, 1)")
    # From then on, the plugin knows under which of its names the service has the table.
    assert _kept(ice, name, "id = 30") == (2, 5)
    ice.trino.gate.forget()
    sql = (
        f"SELECT count(*) FROM {name} a, {name} FOR VERSION AS OF {first} b "
        "WHERE a.id = 30 AND b.id BETWEEN 20 AND 30"
    )
    found = ice.pruned(sql)
    assert found.rows == ice.stock(sql).rows == [(22,)]
    assert ice.trino.gate.posts == ["/v1/plans"]
    assert sorted((each["kept"], each["total"]) for each in ice.trino.gate.answers) == [(2, 4), (2, 5)]
