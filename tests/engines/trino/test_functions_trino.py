"""The rules of `pruner.expr.functions` against Trino, over values at the edges of every type.

Each condition over a function is bound, from its text and, for some, from what Trino offers the connector. Trino is
asked for each value that either rules something out for: no answer may be among it, nor may the question raise an
error.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.nodes import Expr
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner_trino import decode_request
from tests.support.functions.conditions import Claim, conditions, constants, guarded
from tests.support.functions.forms import FORMS, column, functions_in, values_of
from tests.support.running.profiles import examples, seed
from tests.support.trino.server import Trino
from tests.support.trino.tables import SCHEMA, TrinoTables, write_plain

pytestmark = pytest.mark.trino

KINDS = {
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "decimal": "decimal(18,2)",
    "text": "string",
    "date": "date",
    "wall": "timestamp",
}
"""Column types by their Hive names."""
PLAIN = {
    "int16": 5,
    "int32": 5,
    "int64": 5,
    "decimal": 100,
    "text": b"ab",
    "date": 19_000,
    "wall": 1_700_000_000_000_000,
}
"""A value for which no function fails."""
MOST_VALUES = 60
MOST_COLUMNS = 100
MOST_SCANS = 30
SENT = 2
"""Conditions over each function for which Trino is asked what it offers the connector."""
TRINO = Semantics.of("trino")


def quoted(text: str, result: str) -> str:
    """A result as a constant."""
    escaped = text.replace("'", "''")
    prefix = {"date": "DATE ", "wall": "TIMESTAMP ", "text": ""}
    return f"({text})" if result == "number" else f"{prefix[result]}'{escaped}'"


@dataclass(frozen=True)
class Judge:
    """Trino over a table with the values of a column, and over one through the plugin."""

    trino: Trino
    kind: str
    values: Sequence[Any]
    table: str
    pruned: str

    def ask(self, asked: Mapping[str, set[int]]) -> dict[str, dict[int, Any]]:
        """The values of expressions, each only at the given positions."""
        found: dict[str, dict[int, Any]] = {}
        texts = [text for text, places in asked.items() if places]
        for start in range(0, len(texts), MOST_COLUMNS):
            some = texts[start : start + MOST_COLUMNS]
            columns = [guarded(text, asked[text], len(self.values)) for text in some]
            sql = f"SELECT n, {', '.join(columns)} FROM {self.table}"
            rows = self.trino.run(sql, catalog="hive", schema=SCHEMA).rows
            for k, text in enumerate(some):
                found[text] = {row[0]: row[k + 1] for row in rows if row[0] in asked[text]}
        return found

    def offered(self, texts: Sequence[str]) -> dict[str, Expr]:
        """What Trino offers the connector for conditions, decoded; a second condition tells the scans apart."""
        found: dict[str, Expr] = {}
        for start in range(0, len(texts), MOST_SCANS):
            some = texts[start : start + MOST_SCANS]
            self.trino.gate.forget()
            scans = [
                f"SELECT {k} FROM {self.pruned} WHERE n <> {k} AND ({text})" for k, text in enumerate(some)
            ]
            self.trino.run(" UNION ALL ".join(scans), catalog="pruned_hive", schema=SCHEMA)
            for request in self.trino.gate.requests:
                number, content = _without_number(request)
                found[some[number]] = decode_request(content, TRINO)
        return found

    def claim(self, text: str, source: str, expression: Expr) -> Claim:
        """What a form of a condition claims about the values."""
        return Claim(text, source, expression, self.kind, TRINO, self.values)


def _without_number(request: Any) -> tuple[int, bytes]:
    """The number in the request's condition on `n`, and its content without that condition."""
    content = request["predicate"]["content"]
    content = json.loads(content) if isinstance(content, str) else content
    [identity] = [key for key, each in content["columns"].items() if each["path"] == ["n"]]
    numbers: set[int] = set()
    for domain in content["domains"]:
        for each in domain["columns"]:
            if each["column"] == identity:
                numbers.add(each["values"]["ranges"][0]["high"]["value"])
        domain["columns"] = [each for each in domain["columns"] if each["column"] != identity]
    [number] = numbers
    return number, json.dumps(content).encode()


@pytest.fixture(params=KINDS)
def judge(request: pytest.FixtureRequest, trino_tables: TrinoTables, tmp_path: Path) -> Judge:
    kind = request.param
    rng = random.Random(f"{seed()} {kind}")
    values = values_of(kind)
    chosen = rng.sample(values, min(MOST_VALUES, len(values)))
    types = {"n": "bigint", "c": KINDS[kind]}
    root = tmp_path / "values"
    root.mkdir()
    every = pa.table({"n": pa.array(range(len(chosen)), pa.int64()), "c": column(chosen, kind)})
    pq.write_table(every, root / "values.parquet")
    one = pa.table({"n": pa.array([-1], pa.int64()), "c": column([PLAIN[kind]], kind)})
    write_plain(tmp_path / "pruned" / "one.parquet", one)
    pruned = trino_tables.register(tmp_path / "pruned", types)
    name = f"{pruned.name}_values"
    trino_tables.trino.metastore.add_table(SCHEMA, name, root, types)
    return Judge(trino_tables.trino, kind, chosen, name, pruned.name)


def test_no_rule_rules_out_what_trino_answers(judge: Judge):
    rng = random.Random(f"{seed()} {judge.kind}")
    forms = [form for form in FORMS if "trino" in form.written and judge.kind in form.types]
    safe = {
        f"CAST({text} AS VARCHAR)": judge.claim(
            text, "text", parse_predicate(f"({text}) IS NULL", TRINO)
        ).spoken_of
        for text in (form.written["trino"] for form in forms)
    }
    shown = judge.ask(safe)
    claims: dict[str, list[Claim]] = {}
    asked: dict[str, str] = {}
    sent: list[str] = []
    for form in forms:
        text = form.written["trino"]
        results = list(shown.get(f"CAST({text} AS VARCHAR)", {}).values())
        literals = constants(rng, results, form.result, quoted, max(1, examples(10) // 10))
        every = conditions(text, literals)
        sent += rng.sample(every, min(SENT * max(1, examples(10) // 10), len(every)))
        for each in every:
            asked[each] = text
            claims[each] = [judge.claim(each, "text", parse_predicate(each, TRINO))]
    for text, expression in judge.offered(sent).items():
        claims[text].append(judge.claim(text, "offered", expression))
    places = {text: set[int]().union(*(each.spoken_of for each in some)) for text, some in claims.items()}
    for text, answers in judge.ask(places).items():
        for place, answer in answers.items():
            for claim in claims[text]:
                claim.check(place, answer)
    silent = {form.written["trino"] for form in forms} - {
        asked[text] for text, some in claims.items() if any(claim.drops for claim in some)
    }
    assert not silent, "every condition over these keeps every file"


def test_every_row_for_trino_is_proved_here():
    named = {
        each.title or row.name
        for row in FUNCTIONS.values()
        for each in row.preimages
        if "trino" in each.compared
    }
    assert named <= functions_in("trino")
