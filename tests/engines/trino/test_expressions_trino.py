"""The functions that indexes may cover, against Trino: on their domains it computes what the kernel records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pruner.arrow import compute
from pruner.expr.functions.registry import FUNCTIONS
from tests.support.functions.expression_forms import FORMS, comparable, evaluated
from tests.support.functions.expression_values import rows
from tests.support.trino.tables import SCHEMA, TrinoTables

pytestmark = pytest.mark.trino
TYPES = {"k": "int", "ts": "timestamp", "n": "int", "m": "bigint", "x": "double", "r": "double"}
TYPES |= {"since": "timestamp", "ms": "timestamp", "b": "int", "t": "bigint"}
TYPES |= dict.fromkeys("spugcjy", "string") | dict.fromkeys("hqw", "double") | dict.fromkeys("def", "date")


def test_trino_makes_what_is_recorded(trino_tables: TrinoTables, tmp_path: Path) -> None:
    table = rows(None)
    # Hive's default precision is a millisecond, to which Trino rounds (trap S18): such sessions get no answers.
    for name in ("ts", "since", "ms"):
        floored = compute.floor_temporal(table.column(name), unit="millisecond")
        table = table.set_column(table.column_names.index(name), name, floored)
    root = tmp_path / "values"
    root.mkdir()
    pq.write_table(table, root / "values.parquet")
    trino_tables.trino.metastore.ensure_schema(SCHEMA)
    trino_tables.trino.metastore.add_table(SCHEMA, "expression_values", root, TYPES)
    forms = {form.trino: form for form in FORMS if form.trino is not None}
    shown = [
        f"date_format({form}, '%Y-%m-%dT%H:%i:%s.%f')"
        if form.startswith("date_trunc") and "ts" in form
        else form
        for form in forms
    ]
    sql = f"SELECT k, {', '.join(shown)} FROM expression_values ORDER BY k"
    found = trino_tables.trino.run(sql, catalog="hive", schema=SCHEMA).rows
    differing: dict[str, Any] = {}
    for at, (text, form) in enumerate(forms.items()):
        expected = [_as_sent(value) for value in evaluated(form, "trino", table)]
        made = [_as_sent(row[at + 1]) for row in found[: len(expected)]]
        if made != expected:
            differing[text] = [pair for pair in zip(made, expected, strict=True) if pair[0] != pair[1]]
    assert not differing


def _as_sent(value: object) -> object:
    """Trino's client returns dates and NaN as text."""
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        value = float(value.replace("Infinity", "inf"))
    shown = comparable(value)
    return shown.isoformat() if hasattr(shown, "isoformat") else shown


def test_every_row_for_trino_is_proved_here() -> None:
    proved = {form.row for form in FORMS if form.trino is not None}
    assert {
        row.name for row in FUNCTIONS.values() for each in row.evaluations if "trino" in each.compared
    } <= proved
