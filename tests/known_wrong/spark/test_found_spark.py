"""Rows that plans have lost under Spark's rules; each docstring gives Spark 3.5.9's answer."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.losses import kept_by, write_files


@pytest.fixture
def integers(tmp_path: Path) -> Path:
    """Files of an integer column: all NULL, 5, 6, and 7 beside NULL."""
    return write_files(tmp_path / "t", *(pa.array(v, pa.int32()) for v in ([None], [5], [6], [7, None])))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "predicate",
    [
        "x < 9223372036854775808",
        "NOT (x < -9223372036854775809)",
        "x > -9223372036854775809",
        "x NOT BETWEEN 99999999999999999999 AND 5",
        "NOT (x >= 9223372036854775808)",
    ],
)
def test_found_spark_decides_by_a_decimal_beyond_bigint_alone(integers: Path, predicate: str) -> None:
    """`x < 9223372036854775808` is TRUE in Spark for NULL, too: DecimalPrecision.integralAndDecimalLiteral.

    The analyzer replaces it by the literal TRUE (or FALSE), so all three rows of [NULL, NULL, 5] came back.
    """
    assert "0.parquet" in kept_by(integers, predicate, "spark")


def test_found_an_ordinary_decimal_beside_an_integer_still_prunes(integers: Path) -> None:
    """Within the range of BIGINT a NULL stays NULL."""
    assert kept_by(integers, "x < 5.5", "spark") == {"1.parquet"}
    assert kept_by(integers, "x < 9223372036854775807", "spark") == {"1.parquet", "2.parquet", "3.parquet"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["'1e0'", "'nan'", "'9223372036854775808'", "'abc'"])
def test_found_a_constant_that_becomes_null_in_the_cast(integers: Path, text: str) -> None:
    """Without ANSI mode Spark casts the text beside `<=>` to the column's type, here to NULL, which NULL rows equal.

    The constant was taken for non-NULL, and files of NULLs were dropped.
    """
    assert {"0.parquet", "3.parquet"} <= kept_by(integers, f"x <=> {text}", "spark", strict=False)


def test_found_null_safe_equality_still_prunes(integers: Path) -> None:
    """A constant that the cast preserves drops what it dropped before."""
    assert kept_by(integers, "x <=> 5", "spark") == {"1.parquet"}
    assert kept_by(integers, "NOT (x <=> 5)", "spark") == {"0.parquet", "2.parquet", "3.parquet"}


def test_found_is_true_of_a_number_that_true_does_not_fit(tmp_path: Path) -> None:
    """`x IS TRUE` is `x <=> TRUE`, and in DECIMAL(38, 38) TRUE becomes NULL: Spark returned the rows with NULL."""
    type_ = pa.decimal128(38, 38)
    folder = write_files(tmp_path / "t", pa.array([None], type_), pa.array(["0.5"]).cast(type_))
    assert "0.parquet" in kept_by(folder, "x IS TRUE", "spark", strict=False)


def test_found_is_true_of_a_boolean_still_prunes(tmp_path: Path) -> None:
    """For a boolean column nothing is open."""
    folder = write_files(tmp_path / "t", *(pa.array([v], pa.bool_()) for v in (None, True, False)))
    assert kept_by(folder, "x IS TRUE", "spark") == {"1.parquet"}
    assert kept_by(folder, "x IS FALSE", "spark") == {"2.parquet"}
    assert kept_by(folder, "x IS NOT TRUE", "spark") == {"0.parquet", "2.parquet"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("values", "predicate"),
    [
        (pa.array([0], pa.timestamp("us")), "x NOT IN ('1970-01-01')"),
        (pa.array([1_583_020_800_000_000], pa.timestamp("us", "UTC")), "x NOT IN ('2020-03-01T00:00:00Z')"),
        (pa.array(["1"]).cast(pa.decimal128(9, 2)), "NOT (x IN ('1', '2'))"),
        (pa.array([1.0]), "x NOT IN ('1')"),
    ],
)
def test_found_lists_of_texts_compare_as_texts(tmp_path: Path, values: pa.Array, predicate: str) -> None:
    """Spark casts the column to STRING for `IN ('…')`: 1970-01-01 00:00:00 is not in ('1970-01-01'), nor 1.00 in ('1').

    The values were taken for equal, as they are for `=`, and NOT IN dropped the file.
    """
    folder = write_files(tmp_path / "t", values)
    assert kept_by(folder, predicate, "spark") == {"0.parquet"}


def test_found_lists_of_texts_still_prune(tmp_path: Path) -> None:
    """A text in the list means exactly that value."""
    folder = write_files(
        tmp_path / "t", *(pa.array([day], pa.int32()).cast(pa.date32()) for day in (0, 1, 2))
    )
    assert kept_by(folder, "x IN ('1970-01-01', '1970-01-03')", "spark") == {"0.parquet", "2.parquet"}
