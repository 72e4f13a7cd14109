"""Each command on a real table: what it does, and what it prints."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pruner
from pruner import __version__
from tests.support.parquet.tables import write_file
from tests.unit.cli.conftest import Run


def created(run: Run, flights: Path, columns: str = "delay, carrier") -> None:
    ran = run("sql", f"CREATE INDEX stats ON '{flights}' ({columns})")
    assert (ran.code, ran.err) == (0, "")


def test_version(run: Run) -> None:
    assert run("--version").out == f"pruner {__version__}\n"


@pytest.mark.sampled(12)
@pytest.mark.parametrize("command", ["status", "doctor", "plan"])
@pytest.mark.parametrize(("mode", "above"), [(0o000, False), (0o444, False), (0o111, False), (0o000, True)])
def test_a_folder_that_cannot_be_read_is_named(
    run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch, command: str, mode: int, above: bool
) -> None:
    """The error does not name a file of Hudi's that may not even exist."""
    with tempfile.TemporaryDirectory() as outside:  # pytest's own folders are open to one user only
        Path(outside).chmod(0o755)
        monkeypatch.chdir(outside)
        table = shutil.copytree(flights, Path(outside) / "above" / "t")
        arguments = [command, table, *(["--where", "delay > 1"] if command == "plan" else [])]
        assert run(*arguments).code == 0, "whatever is imported by it"
        closed = table.parent if above else table
        closed.chmod(mode)
        try:
            with unprivileged():
                ran = run(*arguments)
        finally:
            closed.chmod(0o755)
            monkeypatch.undo()
    assert ran.code == 1
    assert re.search(f"^error: cannot (look up|list) {table}( completely)?: Permission denied", ran.err)
    assert ".hoodie" not in ran.out + ran.err


@contextmanager
def unprivileged() -> Generator[None]:
    """Become the user nobody for a while: the superuser may read everything."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_create_builds_and_plan_prunes(run: Run, flights: Path) -> None:
    ran = run("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    assert ran.code == 0
    assert ran.out.startswith("index stats created: 4 files indexed, 0 were covered, ")
    ran = run("plan", flights, "--where", "delay >= 20")
    assert ran.code == 0
    assert ran.out.startswith("2 of 4 files to read, ")
    assert ran.err == ""


@pytest.mark.slow
def test_count_says_how_much_metadata_answered(run: Run, flights: Path) -> None:
    created(run, flights)
    ran = run("count", flights, "--where", "delay >= 20")
    assert (ran.code, ran.err) == (0, "")
    rows, told = ran.out.splitlines()
    assert rows == "20"
    assert told.startswith("answered from metadata: 4 of 4 files, in ")
    assert run("count", flights).out.startswith("40\n")
    found = json.loads(run("count", flights, "--where", "delay > 14", "--output", "json").out)
    assert (found["rows"], found["read"], found["total"]) == (25, 1, 4)
    ran = run("count", flights, "--where", "delay > 14", "--dialect", "spark")
    assert ran.code == 2
    assert "count in spark" in ran.err


def test_plan_as_json_is_the_report(run: Run, flights: Path) -> None:
    created(run, flights)
    where = "delay BETWEEN 12 AND 15 AND carrier = 'AB'"
    report = json.loads(run("plan", flights, "--where", where, "--output", "json").out)
    assert (report["kept"], report["total"], report["predicate"]) == (1, 4, where)
    assert "files" not in report
    report = json.loads(run("plan", flights, "--where", where, "--output", "json", "--files", "all").out)
    kept = {Path(entry["base_file"]).name for entry in report["files"] if entry["kept"]}
    assert kept == {"part-1.parquet"}
    assert len(report["files"]) == 4


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("files", "listed"),
    [
        ("summary", []),
        ("kept", ["part-3.parquet"]),
        ("dropped", ["part-0.parquet", "part-1.parquet", "part-2.parquet"]),
        ("all", ["part-0.parquet", "part-1.parquet", "part-2.parquet", "part-3.parquet"]),
    ],
)
def test_plan_lists_slices_with_the_reason(run: Run, flights: Path, files: str, listed: list[str]) -> None:
    created(run, flights)
    lines = run("plan", flights, "--where", "delay > 33", "--files", files).out.splitlines()[1:]
    assert sorted(Path(line.split("  (")[0]).name for line in lines) == listed
    for line in lines:
        assert ("kept: " if "part-3" in line else "dropped by stats: ") in line


def test_several_statements_run_one_after_the_other(run: Run, flights: Path, tmp_path: Path) -> None:
    """The output of `advise --sql` is a script. A statement that fails reports what was done before it."""
    first = f"CREATE INDEX stats ON '{flights}' (delay);"
    second = f"CREATE INDEX bits ON '{flights}' USING bitmap (carrier);"
    (tmp_path / "indexes.sql").write_text(f"{first}\n-- and\n{second}\n", encoding="utf-8")
    ran = run("sql", f"@{tmp_path}/indexes.sql")
    assert ran.code == 0, ran.err
    assert [line.split(":")[0] for line in ran.out.splitlines()] == [
        "index stats created",
        "index bits created",
    ]
    script = f"DROP INDEX stats ON '{flights}'; {second} SHOW INDEXES ON '{flights}'"
    ran = run("sql", script)
    assert (ran.code, ran.out) == (1, "index stats dropped\n")
    assert ran.err.endswith("; statement 2 of 3: 1 statement before it done, 1 statement after it not run\n")


def test_a_script_that_cannot_be_read_does_nothing(run: Run, flights: Path) -> None:
    ran = run("sql", f"CREATE INDEX stats ON '{flights}' (delay);\nCREATE INDEX bits ON")
    assert (ran.code, ran.out) == (2, "")
    assert "line 2, column 21, where it ends" in ran.err
    assert run("status", flights).out.endswith("no indexes\n")
    dry = run("sql", f"CREATE INDEX i ON '{flights}' (delay); DROP INDEX i ON '{flights}'", "--dry-run")
    assert (dry.code, "have a cost" in dry.err) == (2, True)


def test_each_statement_of_several_is_a_line_of_json(run: Run, flights: Path) -> None:
    script = f"CREATE INDEX stats ON '{flights}' (delay); SHOW INDEXES ON '{flights}'"
    lines = run("sql", script, "--output", "json").out.splitlines()
    assert [json.loads(line)["statement"] for line in lines] == ["create", "show"]


@pytest.mark.slow
def test_a_glob_names_the_table_of_its_folder(run: Run, flights: Path) -> None:
    created(run, flights)
    assert run("plan", f"{flights}/*.parquet", "--where", "delay > 33").out.startswith("1 of 4 files")
    some = run("plan", f"{flights}/part-[01].parquet", "--where", "delay > 33")
    assert (some.code, "matches 2 of the 4 files" in some.err) == (1, True)
    named = ("--table", f"f={flights}/**")
    assert "f: 1 of 4 files read" in run("query", "SELECT * FROM f WHERE delay > 33", *named).err


def test_a_path_in_a_query_needs_a_name(run: Run, flights: Path) -> None:
    ran = run("query", f"SELECT count(*) FROM '{flights}'")
    assert ran.code == 1
    assert f"add --table flights={flights}, and write FROM flights" in ran.err
    ran = run("query", f"SELECT count(*) FROM '{flights}/*.parquet'")
    assert (ran.code, ran.out.split()[-1]) == (0, "40")
    assert ran.err == f"{flights}/*.parquet: not pruned: name the table by --table NAME=URI\n"


def test_explain_shows_the_funnel(run: Run, flights: Path) -> None:
    created(run, flights)
    ran = run("explain", flights, "--where", "delay > 33 AND carrier LIKE 'A%'")
    assert ran.code == 0
    assert "1 of 4 files" in ran.out
    assert "stats: " in ran.out
    report = json.loads(run("explain", flights, "--where", "delay > 33", "--output", "json").out)
    assert [step["dropped"] for step in report["funnel"]] == [3]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("dialect", "quoted"), [("duckdb", '"delay"'), ("spark", "`delay`"), ("trino", '"delay"')]
)
def test_the_dialect_decides_how_the_predicate_is_read(
    run: Run, flights: Path, dialect: str, quoted: str
) -> None:
    created(run, flights)
    options = ("--dialect", dialect, "--zone", "Europe/Berlin", "--output", "json")
    ran = run("plan", flights, "--where", f"{quoted} < 10", *options)
    report = json.loads(ran.out)
    assert report["kept"] == 1
    assert report["semantics"]["engine"] == dialect
    assert report["semantics"]["zone"] == "Europe/Berlin"


def test_the_predicate_comes_from_a_file_or_from_standard_input(
    run: Run, flights: Path, tmp_path: Path
) -> None:
    created(run, flights)
    (tmp_path / "where.sql").write_text("delay < 10\n", encoding="utf-8")
    from_file = run("plan", flights, "--where", f"@{tmp_path}/where.sql")
    from_stdin = run("plan", flights, "--where", "-", stdin="delay < 10\n")
    assert from_file == from_stdin
    assert from_file.out.startswith("1 of 4 files")


@pytest.mark.load
def test_a_million_values_in_a_file_are_planned(run: Run, flights: Path, tmp_path: Path) -> None:
    created(run, flights)
    values = ",".join(str(number) for number in range(1_000_005, 2_000_005))
    (tmp_path / "in.sql").write_text(f"delay IN (35,{values})", encoding="utf-8")
    ran = run("plan", flights, "--where", f"@{tmp_path}/in.sql")
    assert ran.code == 0, ran.err
    assert ran.out.startswith("1 of 4 files")


def test_nothing_counts_as_covered_where_there_is_no_index(run: Run, flights: Path) -> None:
    counts = json.loads(run("refresh", flights, "--output", "json").out)
    assert (counts["indexed"], counts["already"]) == (0, 0)


def test_refresh_covers_new_files(run: Run, flights: Path) -> None:
    created(run, flights)
    shutil.copy2(flights / "part-0.parquet", flights / "part-9.parquet")
    dry = json.loads(run("refresh", flights, "--dry-run", "--output", "json").out)
    assert (dry["dry_run"], dry["files"], dry["already"]) == (True, 1, 4)
    statement = ("sql", f"REFRESH INDEX stats ON '{flights}'", "--dry-run")
    assert json.loads(run(*statement, "--output", "json").out)["changed"] is False
    assert run(*statement).out.startswith(
        "index stats is not refreshed: 1 file to be indexed, 4 were covered"
    )
    assert run("plan", flights, "--where", "delay > 33").out.startswith("2 of 5")
    ran = run("refresh", flights, "--index", "STATS", "--output", "json")
    done = json.loads(ran.out)
    assert (ran.code, done["dry_run"], done["indexed"], done["failures"]) == (0, False, 1, [])
    assert run("plan", flights, "--where", "delay > 33").out.startswith("1 of 5")
    assert run("refresh", flights).out.startswith("0 files indexed, 5 were covered")


@pytest.mark.slow
def test_a_new_column_of_an_index_on_all_columns_is_reported(run: Run, tmp_path: Path) -> None:
    """Otherwise a refresh would silently read every file, although only one is reported as new."""
    root = tmp_path / "growing"
    write_file(root / "0.parquet", id=[1], city=["a"])
    write_file(root / "1.parquet", id=[2], city=["b"])
    for name, on, using in (("every", "*", "column_stats"), ("cities", "city", "bitmap")):
        assert run("sql", f"CREATE INDEX {name} ON '{root}' USING {using} ({on})").code == 0
    write_file(root / "2.parquet", id=[3], city=["c"])
    assert "gained" not in run("status", root).out
    assert "gained" not in run("refresh", root).out
    write_file(root / "3.parquet", id=[4], city=["d"], age=[5])
    status = run("status", root).out
    assert "note: indexes every and cities do not cover files: 1 not indexed yet\n" in status
    assert (
        "note: index every gained 1 column (age) as the table did: the next refresh reads every file again\n"
        in status
    )
    told = "index every gained 1 column (age), so every file"
    planned, done = run("refresh", root, "--dry-run").out, run("refresh", root, "--output", "json").out
    assert planned.startswith("4 files to be indexed, 0 were covered, ")
    assert f"{told} is read again" in planned
    assert json.loads(done)["gained"] == {"every": ["age"]}
    assert "gained" not in run("status", root).out


def test_status_names_every_root(run: Run, tmp_path: Path) -> None:
    for root in ("old", "new"):
        write_file(tmp_path / root / "0.parquet", id=[1])
    (tmp_path / "pruner.toml").write_text(
        f"[tables.both]\nuri = ['{tmp_path}/old', '{tmp_path}/new']\nindex_uri = '{tmp_path}/i'\n"
    )
    assert run("status", "both").out.splitlines()[:2] == [
        f"table     {tmp_path}/old (parquet)",
        f"          {tmp_path}/new",
    ]
    assert json.loads(run("status", "both", "--output", "json").out)["roots"] == [
        f"{tmp_path}/old",
        f"{tmp_path}/new",
    ]


def test_an_unknown_table_gets_the_nearest_name_and_all_of_them(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pruner.toml").write_text(
        "".join(f"[tables.{name}]\nuri = '/x/{name}'\n" for name in ("ev", "a", "b"))
    )
    near, far = run("status", "evv").err, run("status", "nothing_like_it").err
    assert (
        f"unknown table 'evv' (did you mean 'ev'?): there is no such path, and {tmp_path}/pruner.toml names "
        in near
    )
    assert f"unknown table 'nothing_like_it': there is no such path, and {tmp_path}/pruner.toml names " in far
    for told in (near, far):
        assert set(told.strip().rpartition(" names ")[2].split(", ")) == {"ev", "a", "b"}


def test_partition_restricts_a_refresh(run: Run, flights: Path) -> None:
    for month in (1, 2):
        (flights / f"month={month}").mkdir()
        for file in list(flights.glob("*.parquet"))[:2]:
            file.rename(flights / f"month={month}" / file.name)
    pruner.open_table(flights).create_index("stats", on="delay", build=False)
    dry = json.loads(run("refresh", flights, "--partition", "month=2", "--dry-run", "--output", "json").out)
    done = json.loads(run("refresh", flights, "--partition", "month=2", "--output", "json").out)
    assert (dry["files"], done["indexed"], done["already"]) == (2, 2, 0)


def test_a_broken_file_is_named_and_kept(run: Run, flights: Path) -> None:
    (flights / "part-2.parquet").write_bytes(b"PAR1 this is no parquet PAR1")
    ran = run("sql", f"CREATE INDEX stats ON '{flights}' (delay)", "--output", "json")
    assert ran.code == 1
    assert ran.err.startswith("error: not indexed: ")
    assert "part-2.parquet" in ran.err
    assert [Path(place).name for place in json.loads(ran.out)["refresh"]["problems"]] == ["part-2.parquet"]
    state = json.loads(run("status", flights, "--output", "json").out)
    assert any("part-2.parquet" in place for place in state["problems"])
    assert json.loads(ran.out)["refresh"]["indexed"] == 3
    report = json.loads(
        run("plan", flights, "--where", "delay > 33", "--output", "json", "--files", "kept").out
    )
    assert {Path(entry["base_file"]).name for entry in report["files"]} == {
        "part-2.parquet",
        "part-3.parquet",
    }


def test_status_and_show_indexes(run: Run, flights: Path) -> None:
    assert "no indexes" in run("show-indexes", flights).out
    created(run, flights)
    shutil.copy2(flights / "part-0.parquet", flights / "part-9.parquet")
    state = json.loads(run("status", flights, "--output", "json").out)
    assert (state["format"], state["slices"], state["coverable"]) == ("parquet", 5, 5)
    (index,) = state["indexes"]
    assert (index["name"], index["using"], index["columns"]) == (
        "stats",
        "column_stats",
        ["delay", "carrier"],
    )
    assert (index["covered"], index["coverable"], index["usable"]) == (4, 5, True)
    shown = json.loads(run("show-indexes", flights, "--output", "json").out)
    assert shown == {key: state[key] for key in ("table", "indexes", "hudi_indexes", "fallbacks")}
    via_sql = json.loads(run("sql", f"SHOW INDEXES ON '{flights}'", "--output", "json").out)
    assert via_sql == {"statement": "show", **shown}
    text = run("status", flights).out
    assert "files     5, of which 5 can be indexed" in text
    header, row, note = text.splitlines()[-3:]
    assert header.split() == ["index", "type", "columns", "covered", "of", "segments", "bytes", "refreshed"]
    assert row.split()[:2] == ["stats", "column_stats"]
    assert note == "note: index stats does not cover files: 1 not indexed yet"


def test_statements_report_what_they_did(run: Run, flights: Path) -> None:
    created(run, flights)
    again = run("sql", f"CREATE INDEX IF NOT EXISTS stats ON '{flights}' (delay)")
    assert (again.code, again.out) == (0, "index stats exists already: nothing done\n")
    refreshed = json.loads(run("sql", f"REFRESH INDEX stats ON '{flights}'", "--output", "json").out)
    assert (refreshed["statement"], refreshed["changed"]) == ("refresh", False)
    assert refreshed["refresh"]["already"] == 4
    assert run("sql", f"DROP INDEX stats ON '{flights}'").out == "index stats dropped\n"
    gone = run("sql", f"DROP INDEX IF EXISTS stats ON '{flights}'")
    assert (gone.code, gone.out) == (0, "no index stats: nothing done\n")


def test_names_come_from_the_configuration_and_the_command_line(
    run: Run, flights: Path, tmp_path: Path
) -> None:
    (tmp_path / "pruner.toml").write_text(
        '[tables.web]\nuri = "flights"\nindex_uri = "idx"\naliases = ["hive.web.flights"]', encoding="utf-8"
    )
    assert run("sql", "CREATE INDEX stats ON hive.web.flights (*)").code == 0
    assert (tmp_path / "idx").is_dir()
    assert not (tmp_path / "flights.pruner").exists()
    assert run("plan", "WEB", "--where", "delay > 33").out.startswith("1 of 4")
    assert "stats  column_stats" in run("sql", "SHOW INDEXES ON f", "--table", f"f={flights}").out
    assert run("sql", "DROP INDEX stats").out == "index stats dropped\n"


def test_the_index_may_be_elsewhere(run: Run, flights: Path, tmp_path: Path) -> None:
    place = ("--index-uri", tmp_path / "elsewhere")
    assert run("sql", f"CREATE INDEX stats ON '{flights}' (delay)", *place).code == 0
    assert run("plan", flights, "--where", "delay > 33").out.startswith("4 of 4")
    assert run("plan", flights, "--where", "delay > 33", *place).out.startswith("1 of 4")


@pytest.mark.slow
def test_query_reads_only_what_is_left(run: Run, flights: Path) -> None:
    created(run, flights)
    named = ("--table", f"flights={flights}")
    ran = run("query", "SELECT delay, carrier FROM flights WHERE delay > 37 ORDER BY delay", *named)
    assert ran.code == 0, ran.err
    assert ran.out == "delay  carrier\n   38  AD\n   39  AD\n"
    assert ran.err.startswith("flights: 1 of 4 files read, ")
    ran = run("query", "SELECT count(*) AS n FROM flights WHERE delay < 15", *named, "--output", "json")
    answer = json.loads(ran.out)
    assert answer["columns"] == [{"name": "n", "type": "BIGINT"}]
    assert answer["rows"] == [[15]]
    (scan,) = answer["scans"]
    assert (scan["name"], scan["reason"], scan["report"]["kept"]) == ("flights", None, 2)


def test_refresh_without_an_index_names_the_remedy(run: Run, flights: Path) -> None:
    ran = run("refresh", flights)
    assert ran.code == 0
    assert "no index" in ran.out
    assert "CREATE INDEX" in ran.out


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("value", "kept"), [("yes", 4), ("1", 4), ("True", 4), ("no", 1), ("0", 1), ("", 1)])
def test_the_switch_takes_any_word_for_yes(run: Run, flights: Path, value: str, kept: int) -> None:
    created(run, flights)
    ran = run("plan", flights, "--where", "delay > 37", env={"PRUNER_DISABLED": value})
    assert ran.out.startswith(f"{kept} of 4")
    if kept == 4:
        ran = run(
            "plan", flights, "--where", "delay > 37", "--output", "json", env={"PRUNER_DISABLED": value}
        )
        assert f"PRUNER_DISABLED={value}" in ran.out


def test_query_prints_an_explanation_line_by_line(run: Run) -> None:
    drawn = run("query", "EXPLAIN SELECT 1").out
    assert "\\n" not in drawn
    assert len(drawn.splitlines()) > 3


def test_statements_and_queries_come_from_files(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / "index.sql").write_text(f"CREATE INDEX stats ON '{flights}' (delay)", encoding="utf-8")
    assert run("sql", f"@{tmp_path / 'index.sql'}").code == 0
    (tmp_path / "question.sql").write_text("SET threads = 1;\nSELECT 42 AS answer;\n", encoding="utf-8")
    assert run("query", f"@{tmp_path / 'question.sql'}").out == "answer\n    42\n"


def test_tables_are_those_of_the_configuration(run: Run, tmp_path: Path) -> None:
    assert run("tables").out == "there is no pruner.toml in this folder or above, so no table has a name\n"
    (tmp_path / "pruner.toml").write_text(
        '[tables.flights]\nuri = "s3://lake/${STAGE}/flights"\naliases = ["hive.web.flights"]\n'
        'storage_options = {secret_access_key = "${KEY}"}',
        encoding="utf-8",
    )
    place = "s3://lake/${STAGE}/flights"
    assert run("tables").out.splitlines()[1].split() == ["flights", place, "hive.web.flights"]
    found = json.loads(run("tables", "--output", "json").out)
    assert found["config"] == str(tmp_path / "pruner.toml")
    listed = {"name": "flights", "uris": [place], "aliases": ["hive.web.flights"], "index_uri": None}
    assert found["tables"] == [listed]


def test_query_finds_configured_tables_and_opens_no_others(run: Run, flights: Path, tmp_path: Path) -> None:
    (tmp_path / "pruner.toml").write_text(
        '[tables.flights]\nuri = "flights"\n[tables.unused]\nuri = "${NOT_SET_ANYWHERE}"', encoding="utf-8"
    )
    ran = run("query", "SELECT max(delay) AS m FROM flights")
    assert (ran.code, ran.out) == (0, "m\n39\n")


def test_verify_vacuum_and_uninstall(run: Run, flights: Path, tmp_path: Path) -> None:
    created(run, flights)
    place = f"{flights}.pruner"
    assert run("verify", flights).out == f"{place}: no faults\n"
    ran = run("vacuum", flights, "--output", "json")
    nothing = {"files": 0, "bytes": 0, "until": None}
    assert json.loads(ran.out) == {"table": str(flights), "index_uri": place, "deleted": 0, "kept": nothing}
    segment = next(Path(place).rglob("*.pidx"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.chmod(0o644)
    segment.write_bytes(damaged)
    ran = run("verify", flights, "--output", "json")
    assert ran.code == 1
    assert len(json.loads(ran.out)["faults"]) == 1
    assert segment.name in ran.err
    refused = run("uninstall", flights)
    assert (refused.code, Path(place).exists()) == (2, True)
    assert refused.err.endswith("standard input is not a terminal, so nobody can be asked: pass --yes\n")
    assert run("uninstall", flights, "--yes").out == f"{place}: deleted\n"
    assert run("uninstall", flights, "--yes").out == f"{place}: nothing is there\n"
    assert not Path(place).exists()
    assert len(list(flights.iterdir())) == 4


def test_vacuum_says_what_stays_and_takes_it_at_a_given_age(run: Run, flights: Path) -> None:
    created(run, flights)
    assert run("sql", f"DROP INDEX stats ON '{flights}'").code == 0
    ran = run("vacuum", flights)
    assert re.search(
        r": 0 files deleted\n(1 file out of use, .* stays|\d+ files out of use, .* stay) for .* "
        r"until 20\d\d-\d\d-\d\d ",
        ran.out,
    )
    for wrong in ("7", "-1d", "soon", "1w"):
        refused = run("vacuum", flights, f"--older-than={wrong}")
        assert (refused.code, "12h" in refused.err) == (2, True)
    kept = json.loads(run("vacuum", flights, "--older-than", "1h", "--output", "json").out)["kept"]
    assert kept["files"] > 0
    assert (
        run("vacuum", flights, "--older-than", "0s").out
        == f"{flights}.pruner: {kept['files']} files deleted\n"
    )


def test_an_interval_without_watch_is_refused(run: Run, flights: Path) -> None:
    refused = run("refresh", flights, "--interval", "5")
    assert (refused.code, "add --watch" in refused.err) == (2, True)


@pytest.mark.slow
def test_doctor_reports_findings_and_remedies(run: Run, flights: Path) -> None:
    ran = run("doctor", flights)
    assert ran.code == 0
    assert f"ok       write: {flights}.pruner: an object can be created once" in ran.out
    assert "warning  index: there is no index, so nothing is pruned. To do: pruner sql" in ran.out
    created(run, flights)
    findings = json.loads(run("doctor", flights, "--output", "json").out)["findings"]
    assert {finding["level"] for finding in findings} == {"ok"}


@pytest.mark.slow
def test_doctor_fails_where_something_is_broken(run: Run, flights: Path) -> None:
    created(run, flights)
    for entry in Path(f"{flights}.pruner/log").iterdir():
        entry.write_bytes(b"{")
    ran = run("doctor", flights)
    assert ran.code == 1
    assert "failure  index: indexes are not used" in ran.out
