"""Errors of statements that read views: DuckDB's own text, which shows the statement as written, without the texts of
the views.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed, oracle, write_flights

VIEWS = (
    "CREATE TABLE sink AS SELECT 7 AS id",
    "CREATE VIEW few AS SELECT id, carrier FROM flights WHERE id < 50",
    "CREATE VIEW wrong AS SELECT carrier::INTEGER AS bad FROM flights WHERE id = 7",
    "CREATE VIEW of_few AS SELECT * FROM few",
    "CREATE MACRO more(x) AS x + 1",
    "CREATE VIEW with_macro AS SELECT more(id) AS k FROM flights",
    "DROP MACRO more",
)

STATEMENTS = (
    "SELECT nope FROM few",
    "SELECT id FROM few WHERE nope = 1",
    "SELECT sum(carrier) FROM few",
    "SELECT bad FROM wrong",
    "SELECT id, nope(id) FROM of_few",
    "SELECT id,\n  carrier\nFROM few\nWHERE carrier = nope",
    "SELECT few.nope FROM few JOIN flights USING (id)",
    "SELECT id FROM few a JOIN few b ON a.id = b.id",
    "SELECT id FROM of_few GROUP BY carrier",
    "SELECT id FROM nosuch JOIN few USING (id)",
    "SELECT carrier::DATE FROM of_few WHERE id = 3",
    "SELECT id + carrier FROM of_few",
    "SELECT id FROM few WHERE id = 'abc'",
    "INSERT INTO sink SELECT nope FROM few",
    "CREATE TABLE made AS SELECT nope FROM few",
    "UPDATE sink SET id = nope FROM few WHERE few.id = sink.id",
    "EXPLAIN SELECT nope FROM of_few",
    "FROM with_macro",
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    root: Path = write_flights(tmp_path_factory.mktemp("views") / "flights")
    plain = oracle({"flights": root})
    with pruner_duckdb.connect({"flights": indexed(root)}) as pruned:
        for session in (pruned, plain):
            for sql in VIEWS:
                session.execute(sql)
        yield pruned, plain
    plain.close()


@pytest.mark.sampled(9)
@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.parametrize("method", ["execute", "sql"])
def test_an_error_reads_as_duckdbs_own(both: tuple[Any, Any], method: str, sql: str) -> None:
    told: list[tuple[type[duckdb.Error], str]] = []
    for con in both:
        with pytest.raises(duckdb.Error) as raised:
            getattr(con, method)(sql).fetchall()
        told.append((raised.type, str(raised.value)))
    if (
        duckdb.__version__ < "2"
    ):  # its relations show no positions, and its statements a single character of them
        ours = told[0][1].partition("\n\nLINE ")[2].partition("\n")[0]
        assert not ours or ours.partition(": ")[2] in sql
        told = [(kind, text.partition("\n\nLINE ")[0]) for kind, text in told]
    assert told[0] == told[1]
