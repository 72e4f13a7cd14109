"""The only table of engines: no other code knows an engine by name, and a missing entry in a row prunes least."""

from __future__ import annotations

import ast
import re
from dataclasses import MISSING, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pruner
from pruner.errors import PredicateError
from pruner.expr import engines
from pruner.expr.binding.bind import bind
from pruner.expr.bound.fields import leaves
from pruner.expr.bound.predicates import Unknown
from pruner.expr.engines import ENGINES, NanOrder, SqlEngine, Traits, traits_of
from pruner.expr.semantics import Semantics
from pruner.expr.text.dialects import dialect_of
from pruner.expr.text.sql import parse_predicate
from tests.unit.expr.schemas import table_schema

CODE = Path(pruner.__file__).parent

NAMED_HERE = {
    "expr/engines.py": "the table of engines",
    "expr/text/dialects.py": "the table of SQL dialects",
    "expr/functions/shapes.py": "the table of patterns of dates",
    "indexes/columns/trust.py": "names of writers, as they stand in files",
    "cli/commands/queries.py": "`pruner query` runs on DuckDB",
    "cli/commands/advising.py": "statements of logs are planned by DuckDB, event logs are those of Spark",
    "cli/commands/serve.py::trino_plugin": "the plugin that it writes out is Trino's",
    "service/rest_catalog/tasks.py": "clients of the catalog compare values as Spark does, or match less",
    "pipeline/spark.py": "modules that a Spark worker must have",
    "plugins.py::DUCKDB_EXTRA": "the name of an extra to install",
    "plugins.py::SPARK_EXTRA": "the name of an extra to install",
    "planning/plan.py": "`scan_polars` and its like name the engine that the files are for",
}
"""Files, and definitions in files, that may name an engine; the rest of a file with a definition here may not."""


_MAY_NAME_ONE = re.compile(rf"\bengine\b|['\"]({'|'.join(ENGINES)})['\"]")
"""Parsing every file of the code would take seconds."""


@pytest.mark.parametrize("file", sorted(CODE.rglob("*.py")), ids=lambda file: str(file.relative_to(CODE)))
def test_no_code_asks_for_an_engine_by_its_name(file: Path):
    text = file.read_text()
    if not _MAY_NAME_ONE.search(text):
        return
    tree = ast.parse(text)
    name = str(file.relative_to(CODE))
    if name not in NAMED_HERE:
        checked = [node for node in tree.body if f"{name}::{_defined(node)}" not in NAMED_HERE]
        named = [node for part in checked for node in _names_of_engines(part)]
        assert not named, [f"line {node.lineno}: {node.value!r}" for node in named]
    asked = [part.lineno for node in ast.walk(tree) for part in _compared(node) if _is_engine(part)]
    assert not asked, f"lines {asked} compare `engine`: ask a trait"


def _names_of_engines(tree: ast.AST) -> list[ast.Constant]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node.value in ENGINES]


def _defined(node: ast.stmt) -> str | None:
    """The name of a function, a class or a constant."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
        case _:
            return None


def _compared(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.Compare():
            return [node.left, *node.comparators]
        case ast.Match():
            return [node.subject]
        case ast.Subscript():
            return [node.slice]
        case _:
            return []


def _is_engine(node: ast.expr) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "engine") or (
        isinstance(node, ast.Name) and node.id == "engine"
    )


def test_the_allowed_files_still_name_an_engine():
    for place in NAMED_HERE:
        file, _, name = place.partition("::")
        body = ast.parse((CODE / file).read_text()).body
        assert any(_names_of_engines(node) for node in body if not name or _defined(node) == name), place


def test_every_trait_is_documented():
    tree = ast.parse(Path(engines.__file__).read_text())
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Traits")
    for trait, after in pairwise(body):
        if isinstance(trait, ast.AnnAssign):
            assert isinstance(after, ast.Expr), ast.unparse(trait.target)
    assert len(fields(Traits)) == sum(isinstance(node, ast.AnnAssign) for node in body)


def test_the_engines_with_sql_are_those_whose_row_names_a_dialect():
    assert [engine.value for engine in SqlEngine] == [name for name, row in ENGINES.items() if row.dialect]
    for engine in SqlEngine:
        assert dialect_of(Semantics.of(engine.value)).name == traits_of(engine).dialect


@pytest.mark.parametrize("engine", ENGINES)
def test_semantics_reach_the_traits_of_their_engine(engine: str):
    assert Semantics(engine=engine).traits is ENGINES[engine]
    if ENGINES[engine].dialect:
        assert Semantics.of(engine).nan_order is ENGINES[engine].nan_order


def test_an_engine_that_is_not_known_is_refused_by_name():
    with pytest.raises(PredicateError, match="unknown engine 'presto': use one of duckdb, "):
        parse_predicate("a = 1", Semantics(engine="presto"))
    with pytest.raises(PredicateError, match="unknown engine 'presto': use one of duckdb, "):
        Semantics.of("presto")
    with pytest.raises(PredicateError, match=r"unknown engine 'Spark': did you mean 'spark'\?"):
        Semantics.of("Spark")


CAUTIOUS = Traits(name="cautious", title="Cautious", nan_order=NanOrder.GREATEST, dialect="duckdb")
"""An engine of which nothing is known but its SQL."""

COLUMNS = {
    "i": pa.int32(),
    "u": pa.uint32(),
    "f": pa.float32(),
    "d": pa.decimal128(10, 2),
    "b": pa.bool_(),
    "t": pa.timestamp("us"),
    "z": pa.timestamp("us", "UTC"),
    "s": pa.string(),
    "y": pa.binary(),
}


@pytest.mark.parametrize("engine", [name for name, row in ENGINES.items() if row.dialect == "duckdb"])
@pytest.mark.parametrize(
    ("predicate", "what"),
    [
        ("i = '1'", "unknown"),
        ("i = 3000000000000000000000.5", "unknown"),
        ("b = 1", "unknown"),
        ("u = 1", "unknown"),
        ("y = 'a'", "unknown"),
        ("t = '2020-01-01'", "unknown"),
        ("d IN ('1', '2')", "unknown"),
        ("f = 0.1", "inexact"),
        ("t = TIMESTAMPTZ '2020-01-01 00:00:00+00'", "inexact"),
        ("z = TIMESTAMP '2020-01-01 00:00:00'", "inexact"),
        ("i = 1", "same"),
        ("s = 'a'", "same"),
        ("d = 1.5", "same"),
        ("t = TIMESTAMP '2020-01-01 00:00:00'", "same"),
    ],
)
def test_a_row_of_defaults_is_no_sharper_than_any_engine(
    monkeypatch: pytest.MonkeyPatch, engine: str, predicate: str, what: str
):
    """R1: what is unknown about an engine makes leaves unknown or wider, never narrower."""
    monkeypatch.setitem(ENGINES, CAUTIOUS.name, CAUTIOUS)
    schema = table_schema(pa.schema(list(COLUMNS.items())))
    known = Semantics(engine=engine, zone="UTC")
    cautious = replace(known, engine=CAUTIOUS.name)
    found = bind(parse_predicate(predicate, cautious), schema, cautious)
    reference = bind(parse_predicate(predicate, known), schema, known)
    match what:
        case "unknown":
            assert isinstance(found, Unknown)
        case "inexact":
            leaf: Any
            sharp: Any
            [leaf], [sharp] = leaves(found), leaves(reference)
            assert not leaf.point.exact
            assert leaf.point.low <= sharp.point.low <= sharp.point.high <= leaf.point.high
        case _:
            assert found == reference


def test_only_name_title_and_nan_order_have_to_be_said():
    required = {trait.name for trait in fields(Traits) if trait.default is MISSING}
    assert required == {"name", "title", "nan_order"}
