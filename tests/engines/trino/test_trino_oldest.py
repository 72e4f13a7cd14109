"""The plugin on the oldest Trino that it supports, part of `make soak`: domains prune, functions reach no scan.

That Trino gives a connector only the domains of columns, and of its connectors only Hive is in Maven's repository.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cases.statement_tables import TABLES, write_parquet
from tests.support.cases.statements import Case, portable_cases
from tests.support.service.planner import running_service
from tests.support.trino.server import (
    STATIC,
    Trino,
    aged,
    index_all,
    register_statement_tables,
    start_oldest,
)

pytestmark = pytest.mark.trino

SCHEMA = "lake"


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    """The server with the three tables of the statements, and the service that knows them."""
    folder = tmp_path_factory.mktemp("oldest")
    root = aged(write_parquet(folder / "lake"))
    index_all(root)
    trino = start_oldest(folder)
    register_statement_tables(trino.metastore, SCHEMA, root, hudi=False)
    lines: list[str] = []
    for name in TABLES:
        lines += [f"[tables.{name}]", f'uri = "{root / name}"', f'aliases = ["pruned_hive.{SCHEMA}.{name}"]']
    (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
    with running_service(folder / "pruner.toml") as url:
        trino.gate.target = url
        yield trino
    trino.stop()


def _problem(trino: Trino, case: Case) -> str | None:
    """What is wrong with the pruned statement: different rows, or files left out that the whole predicate keeps."""
    plain = trino.run(case.sql, catalog="hive", schema=SCHEMA, session=STATIC)
    pruned = trino.run(case.sql, catalog="pruned_hive", schema=SCHEMA, session=STATIC)
    rows = [result.rows if case.ordered else sorted(result.rows, key=repr) for result in (plain, pruned)]
    if rows[0] != rows[1]:
        return f"{case.name}: other rows"
    read = sum(trino.splits_by_scan(pruned.query_id).values())
    least = sum(scan.kept for scan in case.scans("trino"))
    return f"{case.name}: {read} splits, fewer than {least}" if read < least else None


def test_statements_read_the_same_rows(oldest: Trino) -> None:
    """From no fewer files than the whole predicate keeps; how many more is not asserted."""
    problems = [problem for case in portable_cases() if (problem := _problem(oldest, case))]
    assert not problems, "\n".join(problems)
    assert "is read whole" not in oldest.server.log


@pytest.mark.parametrize(
    ("where", "pruned"),
    [
        ("id = 3", True),
        ("carrier = 'AA' AND distance BETWEEN 100 AND 200", True),
        ("lower(carrier) = 'zz'", False),
    ],
)
def test_domains_prune_and_functions_do_not(oldest: Trino, where: str, pruned: bool) -> None:
    """As docs/trino.md describes that version."""
    oldest.gate.forget()
    sql = f"SELECT count(*) FROM flights WHERE {where}"
    found = oldest.run(sql, catalog="pruned_hive", schema=SCHEMA)
    assert found.rows == oldest.run(sql, catalog="hive", schema=SCHEMA).rows
    # A server that has just started may reject a statement after it has asked; the client repeats it.
    assert bool(oldest.gate.answers) is pruned
    for answer in oldest.gate.answers:
        assert answer["kept"] < answer["total"]
        assert sum(oldest.splits_by_scan(found.query_id).values()) == max(answer["kept"], 1)
