"""Index definitions: names, identity, and what an older pruner does with newer ones."""

from __future__ import annotations

import pytest

from pruner.errors import IndexDefinitionError
from pruner.metadata import FieldBinding, define

_FIELDS = (FieldBinding(("a",), "int64"),)


@pytest.mark.parametrize("name", ["", "  ", "x" * 129, "a\nb", "a\0", "a\x1b[31m"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(IndexDefinitionError):
        define(name, "column_stats", _FIELDS)


@pytest.mark.parametrize("name", ["i", "Índice 1", "a.b", 'q"uo`te', "x" * 128])
def test_names(name: str) -> None:
    assert define(name, "column_stats", _FIELDS).name == name


def test_an_index_is_on_something() -> None:
    with pytest.raises(IndexDefinitionError, match="names no column"):
        define("i", "column_stats", ())
    assert define("i", "column_stats", (), all_columns=True).all_columns


def test_two_definitions_alike_are_two() -> None:
    assert define("i", "column_stats", _FIELDS).uuid != define("i", "column_stats", _FIELDS).uuid


def test_what_is_not_known_here_is_unusable_with_the_reason() -> None:
    bitmap = define("b", "bitmap", _FIELDS)
    newer = define("n", "column_stats", _FIELDS, record_version=3)
    assert define("c", "column_stats", _FIELDS, record_version=2).why_unusable({"column_stats": 2}) is None
    assert "'bitmap', which is not installed" in str(bitmap.why_unusable({"column_stats": 2}))
    assert "records of version 3" in str(newer.why_unusable({"column_stats": 2}))
