"""Fixtures and settings for all tests: Spark, real tables, and how random tests are seeded and repeated."""

from __future__ import annotations

import gc
import os
import re
import sys
import typing
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.delta.tables import tables
from tests.support.duckdb import ways as duckdb_ways
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import hudi_tables as kept_by_name
from tests.support.kept.tables import AllTables, KeptTables
from tests.support.running import profiles
from tools.spark_sessions import delta_session, small_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.running.scheduling import OneWorkerForEachEngine
    from tests.support.trino.server import Trino
    from tests.support.trino.tables import TrinoTables

profiles.load()

HERE = Path(__file__).parent

collect_ignore = [
    *([] if profiles.NAME == "soak" else ["engines/trino/test_trino_oldest.py"]),
    *([] if "PRUNER_FAULTS" in os.environ else ["faults/test_all_faults.py"]),
    *(
        []
        if os.environ.get("PRUNER_TEST_STORE") == "minio"
        else map(str, HERE.glob("engines/stores/test_store_feed*.py"))
    ),
]
"""The oldest Trino is a second server to fetch and to start: it runs with `make soak` alone. All faults take an hour of
the processor: they run with `make faults` alone. Stores that tell what changes are MinIO: `make check-stores`."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Set the seed of this run before Hypothesis and the worker processes read it."""
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(profiles.seed())


if sys.version_info < (3, 12):
    # Python 3.11 gathers the members of a protocol for each question whether an object has them; 3.12 keeps them.
    setattr(typing, "_get_protocol_attrs", cache(getattr(typing, "_get_protocol_attrs")))  # noqa: B009, B010

OBJECTS_BEFORE_GARBAGE = 30_000
"""New objects after which Python looks for garbage; by itself it does so after 700."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected, nor among them, as they live to the end; less while they run.

    The search took almost a quarter of the time of collecting, in each worker, and a twelfth of that of tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(OBJECTS_BEFORE_GARBAGE)
        gc.enable()


OF_ONE_MARK = re.compile(r"^pytestmark = pytest\.mark\.(\w+)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import the files of which `-m "not spark and …"` leaves nothing: a quarter of them in `make quick`.

    Each worker would import them, and what they import.
    """
    left_out = {
        each.removeprefix("not ") for each in config.option.markexpr.split(" and ") if each.startswith("not ")
    }
    if not left_out or not collection_path.match("test_*.py"):
        return None
    mark = OF_ONE_MARK.search(collection_path.read_text("utf-8"))
    return True if mark is not None and mark[1] in left_out else None


@pytest.hookimpl(tryfirst=True)
def pytest_collectstart(collector: pytest.Collector) -> None:
    """Let the tests of some files run by both ways in which DuckDB reads tables."""
    if isinstance(collector, pytest.Module) and duckdb_ways.runs_both_ways(collector.path):
        collector.add_marker(pytest.mark.usefixtures(duckdb_ways.FIXTURE))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make two of each such test."""
    if duckdb_ways.FIXTURE in metafunc.fixturenames:
        ways = duckdb_ways.ways(metafunc)
        metafunc.parametrize(duckdb_ways.FIXTURE, ways, indirect=True, scope="module")


@pytest.fixture(scope="module")
def duckdb_way(request: pytest.FixtureRequest) -> Iterator[duckdb_ways.Way]:
    """The way in which DuckDB reads tables: see `tests.support.duckdb.ways`."""
    with duckdb_ways.followed(request.param) as way:
        yield way


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: Any) -> Generator[None, object, object]:
    """Make a module's fixtures anew for the second way."""
    if (
        fixturedef.scope == "module"
        and duckdb_ways.FIXTURE in request.fixturenames
        and fixturedef.argname != duckdb_ways.FIXTURE
    ):
        way: duckdb_ways.Way = request.getfixturevalue(duckdb_ways.FIXTURE)
        way.at_the_end.append(partial(fixturedef.finish, request=request))
    return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of `make quick` what the marks `sampled` of tests say, and cases that have one way alone."""
    items[:] = [item for item in items if not duckdb_ways.is_left_out(item)]
    if not profiles.IS_BRIEF:
        return
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    met: Counter[str] = Counter()
    for item in items:
        mark = item.get_closest_marker("sampled")
        test = item.nodeid.partition("[")[0]
        serves = mark is None or profiles.is_sampled(met[test], mark.args[0])
        (kept if serves else left_out).append(item)
        met[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def pytest_unconfigure() -> None:
    """Let what was kept out of the search go, as libraries expect it at the end of a process."""
    gc.unfreeze()


def pytest_report_header(config: pytest.Config) -> str:
    """Name the profile and the seed at the top of every run."""
    return f"properties: profile {profiles.NAME}, seed {config.option.hypothesis_seed}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneWorkerForEachEngine:
    """Send tests of one engine to one worker: see `tests.support.running.scheduling`."""
    from tests.support.running.scheduling import OneWorkerForEachEngine

    return OneWorkerForEachEngine(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End Trino tests with one line where the machine has no Java for them."""
    if item.get_closest_marker("trino") is not None:
        from tools.java import MissingJavaError, trino_java

        why = None
        try:
            trino_java()
        except MissingJavaError as missing:
            why = str(missing)
        if why is not None:
            pytest.fail(why, pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the one command that repeats a failed property to its report, and where seeds are new of every test."""
    report = yield
    is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
    if report.when == "call" and report.failed and (is_property or not profiles.IS_FIXED):
        seed = item.config.option.hypothesis_seed
        node = item.nodeid
        profile = f"PRUNER_TEST_PROFILE={profiles.NAME} PRUNER_FUZZ_N={profiles.REQUESTED}"
        command = f"{profile} .venv/bin/python -m pytest '{node}' --hypothesis-seed={seed}"
        report.sections.append(("repeat this test", f"seed {seed}\n{command}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that tests recorded as `figure`; what a worker process prints itself is not seen."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", ()):
                if name == "figure" and report.when == "call":
                    terminalreporter.write_line(str(text))


@pytest.fixture(scope="session")
def start_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], SparkSession]]:
    """Start Spark at the first call and stop it after the last test of this process."""
    started: list[SparkSession] = []

    def start() -> SparkSession:
        if not started:
            # It is what all tests of one process share, for half an hour and thousands of plans.
            session = small_session(tmp_path_factory.mktemp("spark"), s3a=True)
            # Spark makes the catalog of a session when it is first asked for, by the settings of the active session,
            # which may be one with Delta by then.
            session.catalog.currentCatalog()
            started.append(session)
        return started[0]

    yield start
    for session in started:
        session.stop()


@pytest.fixture(scope="session")
def spark(start_session: Callable[[], SparkSession]) -> SparkSession:
    """The Spark session with Hudi that all tests of this process share."""
    return start_session()


@pytest.fixture(scope="session")
def delta(spark: SparkSession) -> SparkSession:
    """A session with Delta and without Hudi in the same Java machine."""
    return delta_session(spark)


@pytest.fixture(scope="session")
def delta_tables(start_session: Callable[[], SparkSession]) -> AllTables:
    """The real Delta tables by name; read-only. Spark starts only for those not yet built here."""
    return tables(start_session)


@pytest.fixture(scope="session")
def trino(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    """The Trino server with the plugin that all tests of this process share."""
    from tests.support.trino.server import start

    running = start(tmp_path_factory.mktemp("trino"))
    yield running
    running.stop()


@pytest.fixture
def trino_tables(trino: Trino) -> Iterator[TrinoTables]:
    """Registers single tables with Trino and with a service that ends with the test."""
    from tests.support.trino.tables import TrinoTables

    with ExitStack() as services:
        yield TrinoTables(trino, services)


@pytest.fixture(scope="session")
def hudi_tables(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The real Hudi tables by name; read-only. Spark starts only for those not yet built here."""
    return kept_by_name(start_session)


@pytest.fixture(scope="session")
def spark_reads(start_session: Callable[[], SparkSession]) -> SparkReads:
    """What Spark reads of the kept tables. Spark starts only for what it was not yet asked here."""
    return SparkReads(start_session)


@pytest.fixture
def hudi_table(hudi_tables: KeptTables, tmp_path: Path) -> Callable[[str], Path]:
    """A function from the name of a Hudi table to a copy that the test may change."""
    return lambda name: hudi_tables.copy(name, tmp_path)
