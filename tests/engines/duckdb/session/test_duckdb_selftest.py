"""An untested DuckDB version: its plans are used if they are read with the right meaning, else nothing prunes.

The shadow database is a real one of the running version; only the text of its answers is altered.
"""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pruner.adapters import Newest
from pruner_duckdb.catalog.tables import KnownTable, TableNames
from pruner_duckdb.catalog.views import SessionViews
from pruner_duckdb.connection import KEPT_PLANS, Connection
from pruner_duckdb.rewrite.rewrite import Rewriter
from pruner_duckdb.scans import Scan
from pruner_duckdb.shadow import selftest
from pruner_duckdb.shadow.answers import DatabaseChanges
from pruner_duckdb.shadow.predicates import Predicates
from pruner_duckdb.shadow.shadow import Definitions, Shadow
from pruner_duckdb.statements import StatementRunner
from tests.engines.duckdb.duckdb_tables import FLIGHTS_FILES, answer, indexed, write_flights

UNKNOWN = "2.99.0"
SELECTIVE = "SELECT id FROM flights WHERE id > 549"
SELECTED = 50


class Doctored(Shadow):
    """A shadow database that replaces some words in its answers to one function."""

    def __init__(self, function: str, words: dict[str, str]) -> None:
        super().__init__()
        self._function = function
        self._words = re.compile("|".join(map(re.escape, words)))
        self._others = words

    def _ask(
        self, instance: Any, sql: str, text: str, zone: str | None = None, macros: Definitions = ()
    ) -> str:
        written = super()._ask(instance, sql, text, zone, macros)
        if self._function not in sql:
            return written
        return self._words.sub(lambda found: self._others[found.group()], written)


PLANS = {
    "filters under another key": {'"table_filters"': '"pushed_filters"'},
    "comparisons the other way round": {
        '"COMPARE_GREATERTHAN"': '"COMPARE_LESSTHAN"',
        '"COMPARE_LESSTHAN"': '"COMPARE_GREATERTHAN"',
    },
    "columns counted from one": {f'"key":{n}': f'"key":{n + 1}' for n in range(4)},
    "filters under another operator": {'"LOGICAL_FILTER"': '"LOGICAL_SELECTION"'},
    "scans of another name": {'"LOGICAL_GET"': '"SCAN"'},
    "expressions of another class": {'"BOUND_CONSTANT"': '"LITERAL"'},
    "no plans": {'"plans"': '"trees"'},
    "no JSON": {"{": "("},
}
TREES = {
    "calls of another name": {'"FUNCTION"': '"CALL"'},
    "tables of another name": {'"BASE_TABLE"': '"NAMED_TABLE"'},
    "places counted from one": {'"query_location":': '"query_location":1'},
    "no JSON": {"{": "("},
}
"""What a version might write differently."""


def connection(shadow: Shadow, root: Path) -> Connection:
    names = TableNames({("flights",): KnownTable("flights", indexed(root))})
    rewriter = Rewriter(names, shadow, Predicates(shadow))
    plans: Newest[Scan] = Newest(maxlen=KEPT_PLANS)
    changes = DatabaseChanges(all_pass_here=True)
    return Connection(
        StatementRunner(duckdb.connect(), rewriter, SessionViews(names, shadow), plans, changes)
    )


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flights(tmp_path_factory.mktemp("selftest") / "flights")


@pytest.fixture
def unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "__version__", UNKNOWN)


@pytest.mark.slow
def test_the_running_version_is_among_the_tested_ones_and_would_pass() -> None:
    assert duckdb.__version__ in selftest.TESTED_VERSIONS
    assert selftest.find_problem(Shadow()) is None


@pytest.mark.slow
@pytest.mark.usefixtures("unknown_version")
def test_an_unknown_version_that_writes_the_known_form_prunes(flights: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        con = connection(Shadow(), flights)
        assert len(answer(con, SELECTIVE)) == SELECTED
    assert con.last_plans[-1].kept == 1


@pytest.mark.sampled(12)
@pytest.mark.usefixtures("unknown_version")
@pytest.mark.parametrize("words", PLANS.values(), ids=PLANS)
def test_plans_of_another_form_prune_nothing_and_warn_once(flights: Path, words: dict[str, str]) -> None:
    con = connection(Doctored("json_serialize_plan", words), flights)
    with pytest.warns(RuntimeWarning, match="statements run unpruned") as seen:
        answers = [len(answer(con, SELECTIVE)) for _ in range(2)]
    assert answers == [SELECTED, SELECTED]
    assert len(seen) == 1
    for scan in con.last_plans:
        assert scan.kept == FLIGHTS_FILES
        assert scan.reason is not None
        assert UNKNOWN in scan.reason
        assert scan.reason in str(seen[0].message)


@pytest.mark.slow
def test_such_plans_would_lose_rows_if_they_were_believed(flights: Path) -> None:
    """Guards the test above: it is the self-test's question that keeps the rows."""
    believed = connection(Doctored("json_serialize_plan", PLANS["comparisons the other way round"]), flights)
    assert len(answer(believed, SELECTIVE)) < SELECTED


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("unknown_version")
@pytest.mark.parametrize("words", TREES.values(), ids=TREES)
def test_parse_trees_of_another_form_are_noticed(words: dict[str, str]) -> None:
    problem = selftest.find_problem(Doctored("json_serialize_sql", words))
    assert problem is not None
    assert UNKNOWN in problem


@pytest.mark.slow
@pytest.mark.usefixtures("unknown_version")
def test_a_function_that_is_not_seen_is_not_folded(flights: Path) -> None:
    """L13: the shadow has no variables, so a call left in its copy would become NULL."""
    con = connection(Doctored("json_serialize_sql", TREES["calls of another name"]), flights)
    con.execute("SET VARIABLE wanted = 575")
    with pytest.warns(RuntimeWarning, match="statements run unpruned"):
        assert len(answer(con, "SELECT id FROM flights WHERE id > getvariable('wanted')")) == 24


IMPORT = """
import sys, warnings, duckdb
duckdb.__version__ = sys.argv[1]
if sys.argv[2:]:
    connect = duckdb.connect
    class Doctored:
        def __init__(self, connection): self.connection = connection
        def execute(self, *arguments):
            self.result = self.connection.execute(*arguments)
            return self
        def fetchall(self): return self.result.fetchall()
        def fetchone(self):
            return tuple(str(each).replace("LOGICAL_GET", "SCAN") for each in self.result.fetchone())
    duckdb.connect = lambda *arguments, **named: Doctored(connect(*arguments, **named))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    import pruner_duckdb
print([str(each.message) for each in seen if each.category is RuntimeWarning])
"""


def imported(*arguments: str) -> str:
    run = [sys.executable, "-c", IMPORT, *arguments]
    return subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.processes
def test_an_unknown_version_is_asked_when_the_package_is_imported() -> None:
    assert imported(UNKNOWN) == "[]"
    assert imported(duckdb.__version__, "doctored") == "[]"
    warned = imported(UNKNOWN, "doctored")
    assert warned.count("statements run unpruned") == 1
    assert UNKNOWN in warned
