"""Partition values from paths: decoding, types, and when they are trusted."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.engines import ENGINES
from pruner.tables.partitions import (
    Readers,
    decode_part,
    escape_part,
    hive_partitions,
    infer_type,
    split_folder,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(name=TEXTS, value=TEXTS)
def test_what_hive_escapes_is_read_back(name: str, value: str):
    folder = f"{escape_part(name)}={escape_part(value)}"
    assert split_folder(folder) == [(name, value, Readers.ALL)]


@given(names=st.lists(TEXTS, min_size=1, max_size=4, unique_by=str.lower), data=st.data())
def test_each_level_of_folders_is_one_column(names: list[str], data: st.DataObject):
    values = [data.draw(TEXTS) for _ in names]
    folder = "/".join(
        f"{escape_part(name)}={escape_part(value)}" for name, value in zip(names, values, strict=True)
    )
    found = hive_partitions([folder]).partitions
    assert list(found.values) == [(name,) for name in names]


@pytest.mark.parametrize(
    ("raw", "text", "clear"),
    [
        ("a b", "a b", True),
        ("a%20b", "a b", True),
        ("%252F", "%2F", True),
        ("a+b", "a+b", True),
        ("p%2Fq", "p/q", True),
        ("50%", "50%", False),
        ("%zz", "%zz", False),
        ("%C3%BC", "ü", False),
        ("%FF", "%FF", False),
        ("ü", "ü", True),
    ],
)
def test_escapes_are_decoded_once(raw: str, text: str, clear: bool):
    assert decode_part(raw) == (text, clear)


def test_a_second_equals_sign_belongs_to_the_value_and_engines_disagree_about_it():
    assert split_folder("k=x=y") == [("k", "x=y", Readers.NONE)]
    assert split_folder("k=x%3Dy") == [("k", "x=y", Readers.ALL)]
    assert split_folder("=5/plain/k=1") == [("k", "1", Readers.ALL)]


def test_escaped_bytes_beyond_ascii_have_readers_of_their_own():
    assert split_folder("k=Z%C3%BCrich") == [("k", "Zürich", Readers.UTF_8)]
    for raw in ("%FF", "50%", "%C3%BC%zz", "%C3%BC=1"):
        assert [readers for *_, readers in split_folder(f"k={raw}")] == [Readers.NONE], raw
    assert split_folder("%C3%BC=1")[0][2] == Readers.NONE


@pytest.mark.parametrize(
    ("texts", "type_", "trusted"),
    [
        (["1", "-5", None], pa.int64(), True),
        (["9223372036854775807", "-9223372036854775808"], pa.int64(), True),
        (["9223372036854775808"], pa.string(), False),
        (["01", "02"], pa.string(), False),
        (["+1"], pa.string(), False),
        (["-0"], pa.string(), False),
        (["1e3"], pa.string(), False),
        (["true", "false"], pa.string(), False),
        (["NaN"], pa.string(), False),
        (["٣"], pa.string(), False),
        (["2013-01-31", None], pa.date32(), True),
        (["2013-02-31"], pa.string(), False),
        (["2013-1-1"], pa.string(), False),
        (["de", "fr", None], pa.string(), True),
        (["01", "abc"], pa.string(), True),
        (["1", "abc"], pa.string(), True),
        (["2024-03", "2023-12", None], pa.string(), True),
        (["2024-03", "2024", "2024-03-01"], pa.string(), True),
        (["2024-Q1", "2024Q4"], pa.string(), True),
        (["2024-W05", "2024W53"], pa.string(), True),
        (["2024H1"], pa.string(), True),
        (["2024-13"], pa.string(), False),
        (["2024-3"], pa.string(), False),
        (["2024_03"], pa.string(), False),  # DuckDB reads digits with underscores as a number
        (["2024D", "2024F"], pa.string(), False),  # Java reads these as numbers
        (["2024-03-05-10"], pa.string(), False),
        (["2024-Q1", ""], pa.string(), False),
        (["de", ""], pa.string(), False),
        (["de", " fr"], pa.string(), False),
        (["de", "null"], pa.string(), False),
        ([None], pa.string(), False),
        ([], pa.string(), False),
    ],
)
def test_type_is_inferred_over_all_partitions(texts: list[str | None], type_: pa.DataType, trusted: bool):
    assert infer_type(texts) == (type_, trusted)


def test_values_are_typed_once_for_all_folders():
    found = hive_partitions(["y=2013/d=2013-01-31/c=de", "y=14/d=1969-12-31/c=__HIVE_DEFAULT_PARTITION__"])
    values = {name[0]: array.to_pylist() for name, array in found.partitions.values.items()}
    assert values == {"y": [2013, 14], "d": [date(2013, 1, 31), date(1969, 12, 31)], "c": ["de", None]}
    assert found.partitions.trusted == {("y",), ("d",), ("c",)}
    assert not found.conflicts


def test_keys_may_come_in_any_order():
    found = hive_partitions(["a=1/b=x", "b=y/a=2"])
    assert found.partitions.values[("a",)].to_pylist() == [1, 2]
    assert found.partitions.values[("b",)].to_pylist() == ["x", "y"]
    assert found.partitions.trusted == {("a",), ("b",)}


@pytest.mark.parametrize(
    ("folders", "reason"),
    [
        (["a=1", ""], "folder '' lacks the key 'a'"),
        (["a=1/b=2", "a=1"], "folder 'a=1' lacks the key 'b'"),
        (["a=1", "A=2"], "folders spell the key differently: A, a"),
        (["a=1/a=2"], "has the key 'a' twice"),
    ],
)
def test_keys_that_are_not_the_same_everywhere_are_in_conflict(folders: list[str], reason: str):
    found = hive_partitions(folders)
    assert any(reason in conflict for conflict in found.conflicts.values())
    assert not {path for path in found.partitions.trusted if path[0] in found.conflicts}


def test_padded_numbers_are_trusted_for_duckdb_alone():
    found = hive_partitions(["m=01/k=1e3", "m=12/k=02"]).partitions
    assert not found.trusted
    assert found.padded == {("m",)}
    assert found.trusts(("m",), ENGINES["duckdb"])
    assert not any(found.trusts(("m",), ENGINES[engine]) for engine in ("spark", "trino"))
    assert not found.trusts(("k",), ENGINES["duckdb"])


def test_folders_without_keys_are_not_partitions():
    found = hive_partitions(["2013/01", ""])
    assert not found.partitions.values
    assert found.partitions.paths.to_pylist() == ["2013/01", ""]


def test_escaped_bytes_are_trusted_where_they_are_taken_for_utf8():
    found = hive_partitions(["city=Z%C3%BCrich/k=%C3%A9/n=1", "city=Bern/k=%FF/n=%C2%B2"]).partitions
    assert found.trusted == frozenset()
    assert found.escaped == {("city",)}, "k has bytes that are no text, n holds a number"
    trusting = {name for name, traits in ENGINES.items() if found.trusts(("city",), traits)}
    assert trusting == {"duckdb", "polars", "pyarrow"}
