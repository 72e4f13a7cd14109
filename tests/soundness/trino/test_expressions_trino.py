"""Indexes over expressions in Trino: scans through the plugin find the rows of full scans, and drop files.

The random conditions of DuckDB's test in Trino's spelling; the indexes are spelled for DuckDB. The plain catalog
answers eighty conditions as columns of one query, into which nothing is pushed. The pruned catalog reads the rows of
forty conditions in one statement, each scan by a plan of its own. `make soak` asks thousands.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

import pruner
from pruner.expr.semantics import Semantics
from tests.soundness.test_expressions import EDGES, EXPRESSIONS, FILES, USING, condition, write_files
from tests.support.running.profiles import examples, seed
from tests.support.trino.server import aged
from tests.support.trino.tables import SCHEMA, Registered, TrinoTables

pytestmark = pytest.mark.trino

AT_ONCE = 80
SCANS = 40
NOT_PROVED = FILES // 5
"""Files of edges, and those of an hour that crosses midnight, for which a range proves nothing."""
OF_NO_RANGE = ("n & 12", "md5(s)")
"""Their values are spread out in every file, so a range proves nothing about them: a bitmap does."""
IN_TRINO = {
    # DuckDB's spelling: Trino's
    "strftime(inst, '%H:%M')": "date_format(inst, '%H:%i')",
    "strftime(": "date_format(",
    "isodow(": "day_of_week(",
    "inst::DATE": "date(inst)",
    "left(upper(s), 2)": "substr(upper(s), 1, 2)",
    "n::VARCHAR": "CAST(n AS VARCHAR)",
    "last_day(": "last_day_of_month(",
    "isoyear(": "year_of_week(",
    "instr(": "strpos(",
    "md5(s)": "lower(to_hex(md5(to_utf8(s))))",
    "n // 8": "n / 8",
    "n & 12": "bitwise_and(n, 12)",
    "xor(n, m)": "bitwise_xor(n, m)",
    "d + 7": "date_add('day', 7, d)",
    "j ->> '$.a'": "json_extract_scalar(j, '$.a')",
    "s2::DATE": "CAST(s2 AS DATE)",
    "floor(x)::BIGINT": "CAST(floor(x) AS BIGINT)",
    "levenshtein(": "levenshtein_distance(",
}
NOT_IN_TRINO = ("timezone(",)
COLUMNS = {
    "ts": "timestamp",
    "inst": "timestamp",
    "d": "date",
    "n": "int",
    "m": "bigint",
    "x": "double",
    "s": "string",
    "d2": "date",
    "j": "string",
    "s2": "string",
}
"""Hive's types."""


EDGES_THAT_FIT = {
    **EDGES,
    "n": [0, -1, 1, 127, 128],
    "m": [2**53, 2**53 + 1, 0, -1],
    "x": [0.0, -0.0, 1e15, 5e-324],
    "s2": ["1969-12-31", "9999-12-31", "1500-01-01"],
}
"""Trino raises where a sum overflows or a text is not a date, also in columns of a query beside others."""


def conditions(tape: random.Random) -> Iterator[str]:
    """Endless random conditions in Trino's SQL."""
    while True:
        text = condition(tape)
        if any(name in text for name in NOT_IN_TRINO):
            continue
        for one, other in IN_TRINO.items():
            text = text.replace(one, other)
        yield text


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files with an index over each expression that Trino can write."""
    root = tmp_path_factory.mktemp("trino_expressions") / "t"
    write_files(root, random.Random(11), EDGES_THAT_FIT)
    table = pruner.open_table(aged(root))
    written = [each for each in EXPRESSIONS if not any(name in each for name in NOT_IN_TRINO)]
    for number, expression in enumerate(written):
        using = "bitmap" if expression in OF_NO_RANGE else USING[number % len(USING)]
        table.create_index(f"i{number}", on=expression, using=using, build=False)
    table.create_index("numbers", on=["n", "ts"], build=False)
    assert not table.refresh().failures
    return root


@pytest.fixture
def registered(trino_tables: TrinoTables, root: Path) -> Registered:
    """The same table through the plugin."""
    return trino_tables.register(root, COLUMNS, indexed=False)


def answered(registered: Registered, texts: Sequence[str]) -> list[set[str]]:
    """The files that hold a row for which each condition is true, by the plain catalog."""
    columns = ", ".join(f"bool_or({each})" for each in texts)
    sql = f'SELECT "$path", {columns} FROM {registered.name} GROUP BY 1'
    rows = registered.trino.run(sql, catalog="hive", schema=SCHEMA).rows
    return [{_name(row[0]) for row in rows if row[k + 1]} for k in range(len(texts))]


def scanned(registered: Registered, asked: Mapping[str, set[str]]) -> dict[str, int]:
    """Read the rows of conditions through the plugin; returns how many files each planned scan kept."""
    gate, texts = registered.trino.gate, list(asked)
    gate.forget()
    scans = [
        f"""SELECT DISTINCT {k}, "$path" FROM {registered.name} WHERE ({text}) AND "$path" <> 'scan {k}.'"""
        for k, text in enumerate(texts)
    ]
    rows = registered.trino.run(" UNION ALL ".join(scans), catalog="pruned_hive", schema=SCHEMA).rows
    for k, text in enumerate(texts):
        assert {_name(row[1]) for row in rows if row[0] == k} == asked[text], text
    return {texts[_number(request)]: answer["kept"] for request, answer in gate.exchanges}


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    return (texts[start : start + SCANS] for start in range(0, len(texts), SCANS))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _number(request: object) -> int:
    """Which scan a request is for: the path that no file has identifies it."""
    found = re.search(r"scan (\d+)\.", json.dumps(request))
    assert found is not None, request
    return int(found[1])


def test_no_row_is_lost(registered: Registered, record_property: Callable[[str, object], None]) -> None:
    drawn = conditions(random.Random(f"{seed()} trino"))
    count, could, went, read = examples(80), 0, 0, 0
    pinned = pruner.open_table(registered.root).snapshot()
    semantics = Semantics(engine="trino", zone="UTC")
    for start in range(0, count, AT_ONCE):
        texts = [next(drawn) for _ in range(min(AT_ONCE, count - start))]
        asked = dict(zip(texts, answered(registered, texts), strict=True))
        for text, holding in asked.items():
            kept = {_name(file) for file in pinned.plan(text, semantics=semantics).files}
            assert holding <= kept, (text, sorted(holding - kept))
        for some in _batches(list(asked)):
            for text, kept_files in scanned(registered, {each: asked[each] for each in some}).items():
                read += 1
                could += FILES - len(asked[text])
                went += FILES - kept_files
    record_property("figure", f"Trino: {read} scans over expressions left out {went} of {could} files")
    assert read >= count // 2
    assert went >= 0.4 * could, (went, could)


SINGLE: tuple[str, ...] = (
    "date_format(ts, '%H') = '09'",
    "date_format(inst, '%H:%i') LIKE '1%'",
    "hour(ts) IN (3, 4)",
    "day_of_week(inst) = 3",
    "dow(inst) = 3",
    "date(inst) = DATE '2023-11-16'",
    "inst BETWEEN TIMESTAMP '2023-11-16 00:00' AND TIMESTAMP '2023-11-16 23:00'",
    "date_trunc('hour', ts) = TIMESTAMP '2023-11-16 03:00'",
    "n + 1 = 12",
    "n % 8 = 3",
    "mod(n, 8) = 3",
    "x * 2e0 + x > 21.5",
    "upper(s) = 'K4X'",
    "lower(s || '-x') = 'a2x-x'",
    "substr(upper(s), 1, 2) = 'K4'",
    "CAST(n AS VARCHAR) = '12'",
    "round(x) = 3e0",
    "n / 8 = 2",
    "bitwise_and(n, 12) = 8",
    "bitwise_xor(n, m) = 3",
    "date_add('day', 7, d) = DATE '2023-11-23'",
    "CAST(s2 AS DATE) = DATE '2023-11-16'",
    "levenshtein_distance(s, 'K4x') = 1",
    "CAST(floor(x) AS BIGINT) = 3",
    "lower(to_hex(md5(to_utf8(s)))) = '33a598827b2e5e2b7b45f52408bad9d6'",
)


def test_each_form_reaches_its_index(registered: Registered) -> None:
    """What Trino's optimizer makes of a form reaches the index; the files that prove nothing may stay."""
    asked = dict(zip(SINGLE, answered(registered, SINGLE), strict=True))
    kept = scanned(registered, asked)
    weak = {
        text: (kept.get(text), len(holding))
        for text, holding in asked.items()
        if kept.get(text, FILES) > len(holding) + NOT_PROVED
    }
    assert not weak
