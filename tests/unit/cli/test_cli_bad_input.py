"""Bad input gets one sentence and exit code 1 or 2, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import Ran, Run


def assert_refused(ran: Ran, code: int, *words: str) -> None:
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    assert not ran.err.startswith("error: unexpected")
    for word in words:
        assert word in ran.err, ran.err


@pytest.mark.parametrize("command", ["refresh", "status", "show-indexes", "verify", "vacuum"])
def test_no_such_path(run: Run, tmp_path: Path, command: str) -> None:
    assert_refused(run(command, tmp_path / "gone"), 1, f"{tmp_path}/gone")
    assert_refused(run(command, "gone"), 1, "unknown table 'gone'", "pruner.toml")


def test_what_is_no_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").write_text("no table", encoding="utf-8")
    assert_refused(run("plan", tmp_path / "notes", "--where", "a = 1"), 1, f"{tmp_path}/notes")


@pytest.mark.parametrize("marker", ["_delta_log/00000000000000000000.json", "metadata/v1.metadata.json"])
def test_foreign_table_formats(run: Run, flights: Path, marker: str) -> None:
    (flights / marker).parent.mkdir()
    (flights / marker).write_text("{}", encoding="utf-8")
    name = "Delta" if "delta" in marker else "Iceberg"
    assert_refused(run("plan", flights, "--where", "delay = 1"), 1, name, str(flights))


def test_a_folder_inside_a_hudi_table(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    (tmp_path / ".hoodie" / "hoodie.properties").write_text("hoodie.table.name=t\n", encoding="utf-8")
    assert_refused(run("plan", flights, "--where", "delay = 1"), 1, "Hudi", str(tmp_path))


def test_an_unknown_column(run: Run, flights: Path) -> None:
    assert_refused(run("plan", flights, "--where", "delya = 1"), 1, "no column 'delya'", "delay, carrier")


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("delay = = 1", ["line 1", "column"]),
        ("delay >\n 5 AND )", ["line 2", "column"]),
        ("delay = 'abc'", ["delay"]),
        ("", ["empty"]),
    ],
)
def test_predicates_that_cannot_be_understood(run: Run, flights: Path, where: str, words: list[str]) -> None:
    for command in ("plan", "explain"):
        assert_refused(run(command, flights, "--where", where), 2, *words)


def test_an_argument_too_many_may_be_a_predicate(run: Run, flights: Path) -> None:
    assert_refused(run("count", flights, "delay < 3"), 2, "(delay < 3)", "--where")
    refused = run("refresh", flights, "delay < 3")
    assert_refused(refused, 2, "(delay < 3)")
    assert "--where" not in refused.err


@pytest.mark.slow
def test_predicates_that_are_too_large(run: Run, flights: Path, tmp_path: Path) -> None:
    deep = "(" * 10_000 + "delay = 1" + ")" * 10_000
    assert_refused(run("plan", flights, "--where", deep), 2, "nest")
    place = tmp_path / "where.sql"
    place.write_text("delay IN (" + "1," * 20_000_000 + "1)", encoding="utf-8")
    assert_refused(run("plan", flights, "--where", f"@{place}"), 2, "longer than 33,554,432 bytes")


@pytest.mark.slow
def test_predicates_that_cannot_be_read(run: Run, flights: Path, tmp_path: Path) -> None:
    assert_refused(run("plan", flights, "--where", f"@{tmp_path}/gone.sql"), 2, "gone.sql", "No such file")
    assert_refused(run("plan", flights, "--where", "-", stdin=b"delay = '\xff'"), 2, "not UTF-8")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("statement", "code", "words"),
    [
        ("CREATE INDEX i ON {t} (delay", 2, ["line 1, column", "a closing bracket is missing"]),
        ("CREATE INDEX i ON {t} (delya)", 1, ["no column 'delya'", "delay, carrier"]),
        ("CREATE INDEX i ON {t} (tags)", 1, ["tags", "list"]),
        ("CREATE INDEX i ON {t} (my_udf(carrier))", 1, ["my_udf", "not in the registry", "line 1, column"]),
        (
            "CREATE INDEX i ON {t} (delay) WHERE carrier = 'AA'",
            1,
            ["WHERE", "'carrier'", "not a partition column"],
        ),
        ("CREATE INDEX i ON {t} USING btree (delay)", 1, ["btree", "column_stats"]),
        ("CREATE INDEX i ON {t} (delay, DELAY)", 1, ["twice"]),
        ("CREATE INDEX i ON {t} (delay) OPTIONS (no_such = 1)", 1, ["no_such"]),
        ('CREATE INDEX "" ON {t} (delay)', 1, ["name"]),
        ("CREATE INDEX i ON nowhere (delay)", 1, ["unknown table 'nowhere'", "pass --table nowhere=URI"]),
        ("DROP INDEX i ON {t}", 1, ["no index 'i'"]),
        ("DROP INDEX i", 1, ["none of the known tables has an index 'i'"]),
        ("REFRESH INDEX i ON {t}", 1, ["no index 'i'"]),
        ("SHOW TABLES", 2, ["expected INDEXES"]),
    ],
)
def test_statements(run: Run, flights: Path, statement: str, code: int, words: list[str]) -> None:
    assert_refused(run("sql", statement.format(t=f"'{flights}'")), code, *words)


def test_two_indexes_of_one_name(run: Run, flights: Path) -> None:
    assert run("sql", f"CREATE INDEX stats ON '{flights}' (delay)").code == 0
    assert_refused(
        run("sql", f"CREATE INDEX Stats ON '{flights}' (carrier)"), 1, "an index named 'stats' already"
    )


def test_drop_finds_no_single_table(run: Run, flights: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(pa.table({"delay": [1]}), other / "a.parquet")
    for table in (flights, other):
        assert run("sql", f"CREATE INDEX stats ON '{table}' (delay)").code == 0
    config = tmp_path / "pruner.toml"
    config.write_text('[tables.a]\nuri = "flights"\n[tables.b]\nuri = "other"', encoding="utf-8")
    assert_refused(
        run("sql", "DROP INDEX stats"), 1, "several tables have an index 'stats'", "DROP INDEX stats ON"
    )
    config.write_text('[tables.a]\nuri = "flights"\n[tables.b]\nuri = "gone"', encoding="utf-8")
    assert_refused(
        run("sql", "DROP INDEX stats"), 1, "cannot look for index 'stats' in b", "DROP INDEX stats ON"
    )
    # One table under two names is one table.
    config.write_text('[tables.a]\nuri = "flights"\n[tables.b]\nuri = "./flights"', encoding="utf-8")
    assert run("sql", "DROP INDEX stats").code == 0


def test_a_read_only_location_for_the_metadata_table(run: Run, flights: Path, tmp_path: Path) -> None:
    statement = f"CREATE INDEX stats ON '{flights}' (delay)"
    # /sys cannot be written to, not even by root, whom permissions do not stop.
    assert_refused(
        run("sql", statement, "--index-uri", "/sys/lake.pruner"), 1, "/sys/lake.pruner", "index_uri"
    )
    (tmp_path / "file").write_text("a file is no folder", encoding="utf-8")
    below = tmp_path / "file" / "below"
    assert_refused(run("sql", statement, "--index-uri", below), 1, str(below))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "t"], ["--where"]),
        (["plan", "t", "--where", "a = 1", "--dialect", "mysql"], ["--dialect", "mysql"]),
        (["plan", "t", "--where", "a = 1", "--files", "some"], ["--files", "some"]),
        (
            ["plan", ".", "--where", "a = 1", "--option", "region"],
            ["--option", "'region' has no '=' in it: write --option region=VALUE"],
        ),
        (["query", "FROM ev", "--table", "ev"], ["'ev' has no '=' in it: write --table ev=PATH"]),
        (["plan", ".", "--where", " where a = 1"], ["give the condition that follows WHERE alone"]),
        (
            ["plan", ".", "--where", "a = 1", "--option", "=x"],
            ["--option", "'=x' has no key before '='"],
        ),
        (
            ["plan", ".", "--where", "a = 1", "--option", "a=1", "--option", "a=2"],
            ["--option", "'a' is given twice"],
        ),
        (["plan", ".", "--where", "delay = 1", "--zone", "Mars/Olympus"], ["Mars/Olympus"]),
        (["plan", ".", "--where", "delay = 1", "--zone", "+25:00"], ["+25:00"]),
        (["refresh"], ["TABLE"]),
        (["refresh", "t", "u"], ["u"]),
        (["frobnicate"], ["frobnicate"]),
        (["status", "t", "--spark", "local"], ["--spark"]),
        (["sql", "DROP INDEX i", "--index-uri", "x"], ["--index-uri", "DROP INDEX name ON table"]),
        (["uninstall", "."], ["--yes"]),
    ],
)
def test_wrong_usage(run: Run, flights: Path, arguments: list[str], words: list[str]) -> None:
    assert_refused(run(*(str(flights) if argument == "." else argument for argument in arguments)), 2, *words)


def test_what_is_no_table_is_told_with_what_would_be(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    none = run("plan", tmp_path / "empty", "--where", "a = 1")
    assert_refused(
        none, 1, "there are no Parquet files in it, and none of the folders .hoodie, _delta_log and"
    )
    file = next(iter(flights.glob("*.parquet")))
    assert_refused(run("plan", file, "--where", "a = 1"), 1, f"{file} is a file: give the table's root")
    named = "a table of an Iceberg catalog is iceberg://catalog/ns/t"
    assert_refused(run("plan", "ns.t", "--where", "a = 1"), 1, "unknown table 'ns.t'", named)
    assert "Iceberg" not in run("plan", "flihts", "--where", "a = 1").err


def test_a_wrong_configuration(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / "pruner.toml").write_text("[tables.t]\nurl = 'x'", encoding="utf-8")
    assert_refused(run("status", "t"), 1, "pruner.toml", "tables.t", "unknown key 'url'")
    missing = run("status", flights, env={"PRUNER_CONFIG": str(tmp_path / "gone.toml")})
    assert_refused(missing, 1, "gone.toml")


@pytest.mark.sampled(19)
@pytest.mark.parametrize(
    ("select", "code", "words"),
    [
        ("SELEC 1", 2, ["SELEC"]),
        ("SELECT nothing FROM flights", 1, ["nothing"]),
        (
            "SELECT * FROM unknown",
            1,
            [
                "unknown table unknown: pass --table unknown=URI, or name it in pruner.toml (known are flights)"
            ],
        ),
        (
            "SELECT * FROM pragma_database",
            1,
            ["unknown table pragma_database: pass --table", "(known are flights)"],
        ),
        ("SELECT 1; SELECT 2", 2, ["2 queries: run them one by one"]),
        ("@no-such-file.sql", 2, ["cannot read 'no-such-file.sql'"]),
        ("SELECT * FROM connection", 1, ["connection"]),
        ("COPY flights TO 'copied.csv'", 2, ["must not change anything, so COPY is refused"]),
        ("CREATE TABLE t AS FROM flights", 2, ["CREATE is refused"]),
        ("SELECT 1; DELETE FROM flights", 2, ["DELETE is refused"]),
        ("WITH f AS (FROM flights) INSERT INTO t FROM f", 2, ["INSERT is refused"]),
        ("EXPLAIN ANALYZE COPY flights TO 'copied.csv'", 2, ["COPY is refused"]),
        ("PREPARE p AS COPY flights TO 'copied.csv'; EXECUTE p", 2, ["PREPARE is refused"]),
        ("COPY FROM DATABASE a TO b", 2, ["is refused"]),
        # As in `pruner plan`: what no table could answer is 2, what this one does not have is 1.
        ("SELECT * FROM flights WHERE delay = 'abc'", 2, ["Conversion Error", "'abc'"]),
        ("SELECT * FROM flights WHERE delay = DATE '2024-01-01'", 2, ["Unimplemented type for cast"]),
        ("SELECT * FROM flights WHERE delay LIKE carrier || []", 2, ["Binder Error"]),
        ("SELECT * FROM flights WHERE delya = 1", 1, ["Binder Error", "delya"]),
        ("SELECT CAST(carrier AS INT) FROM flights", 1, ["Conversion Error", "source column"]),
    ],
)
def test_queries(run: Run, flights: Path, select: str, code: int, words: list[str]) -> None:
    assert_refused(run("query", select, "--table", f"flights={flights}"), code, *words)
    assert not list(flights.parent.rglob("copied.csv"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "statement",
    ["EXPLAIN SELECT 1", "SET TimeZone = 'UTC'; SELECT 1", "PRAGMA version", "FROM (DESCRIBE flights)"],
)
def test_questions_of_other_kinds_are_queries(run: Run, flights: Path, statement: str) -> None:
    assert run("query", statement, "--table", f"flights={flights}").code == 0


def test_control_characters_never_reach_the_terminal(run: Run) -> None:
    ran = run("status", "/tmp/\x1b[31mred\nline")
    assert_refused(ran, 1)
    assert "\x1b" not in ran.err


def test_no_command_shows_the_help(run: Run) -> None:
    ran = run()
    assert ran.code == 2
    assert ran.err.startswith("Usage: ")
    assert "\n  sql  " in ran.err


def test_an_unknown_choice_is_named_plainly(run: Run, flights: Path) -> None:
    ran = run("plan", flights, "--where", "delay = 1", "--dialect", "oracle")
    assert_refused(ran, 2, "Invalid value for '--dialect': 'oracle' is not one of 'duckdb'")


def test_an_empty_query(run: Run) -> None:
    assert_refused(run("query", " ;\n"), 2, "the query is empty")


def test_a_place_below_a_file_offers_another(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = run("sql", f"CREATE INDEX i ON '{flights}' (delay)", "--index-uri", tmp_path / "file" / "index")
    assert_refused(made, 1, "cannot list", "--index-uri")


def test_a_long_predicate_is_shortened_for_people(run: Run, flights: Path) -> None:
    where = f"delay IN ({', '.join(map(str, range(5000)))})"
    text, whole = (
        run("explain", flights, "--where", where),
        run("plan", flights, "--where", where, "--output", "json"),
    )
    assert len(text.out) < 5000
    assert f"({len(where):,} characters)" in text.out
    assert where in whole.out
