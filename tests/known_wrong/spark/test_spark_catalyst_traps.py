"""Traps in how Catalyst's predicates are read: L5 to L8, L12 and S17, through Spark itself.

Spark computes each predicate over all rows; the plan uses the form that its optimizer hands to the scan.
A predicate that no statistics can decide keeps every file; a decidable one beside it, in an AND, still prunes.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pruner.expr.nodes import Compare, Opaque
from pruner.expr.show import show
from pruner_spark.catalyst.decode import Nodes
from pruner_spark.catalyst.source import ExpressionTree
from pruner_spark.session import SessionState
from tests.support.losses import kept_by, write_files
from tests.support.spark.catalyst import matching_and_kept, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ALL = {"0.parquet", "1.parquet", "2.parquet"}


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Files of a BIGINT: 1, 2**32 + 1, and 24."""
    return write_files(tmp_path / "t", *(pa.array([value], pa.int64()) for value in (1, 2**32 + 1, 24)))


@pytest.fixture
def moments(tmp_path: Path) -> Path:
    """Files of instants: the end of 2019, the beginning of 2020, and a summer's noon."""
    texts = ("2019-12-31T23:30:00", "2020-01-01T03:15:00", "2020-07-01T12:00:00")
    return write_files(
        tmp_path / "t",
        *(
            pa.array([datetime.datetime.fromisoformat(text)])
            .cast(pa.timestamp("us"))
            .cast(pa.timestamp("us", "UTC"))
            for text in texts
        ),
    )


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Files of texts: ant, Bee, and a word whose upper case is one letter longer."""
    return write_files(tmp_path / "t", *(pa.array([text]) for text in ("ant", "Bee", "straße")))


def test_l5_narrowing_casts_wrap(spark: SparkSession, numbers: Path) -> None:
    """`CAST(4294967297 AS INT) = 1` without ANSI mode (hudi#19445)."""
    matching, kept = matching_and_kept(spark, numbers, "CAST(x AS INT) = 1")
    assert matching == kept == {"0.parquet", "1.parquet"}
    assert matching_and_kept(spark, numbers, "CAST(x AS INT) = 1 AND x > 100") == (
        {"1.parquet"},
        {"1.parquet"},
    )
    assert matching_and_kept(spark, numbers, "NOT (CAST(x AS TINYINT) > 1)") == (matching, kept)


def test_l5_widening_casts_still_prune(spark: SparkSession, numbers: Path) -> None:
    """A cast that preserves every value and their order is seen through."""
    only = ({"2.parquet"}, {"2.parquet"})
    assert matching_and_kept(spark, numbers, "CAST(x AS DECIMAL(25, 2)) = 24.00") == only
    assert matching_and_kept(spark, numbers, "CAST(x AS DOUBLE) BETWEEN 20D AND 30D") == only


@pytest.mark.parametrize(
    ("predicate", "matching", "kept"),
    [
        ("date_format(x, 'MM/dd/yyyy') <= '01/01/2020'", {"1.parquet"}, ALL),
        ("date_format(x, 'HH') > '11'", {"0.parquet", "2.parquet"}, ALL),
        (
            "date_trunc('year', x) = TIMESTAMP'2020-01-01'",
            {"1.parquet", "2.parquet"},
            {"1.parquet", "2.parquet"},
        ),
    ],
)
def test_l6_formats_are_not_monotone(
    spark: SparkSession, moments: Path, predicate: str, matching: set[str], kept: set[str]
) -> None:
    """A format function taken for monotone, whatever its pattern (hudi#19481)."""
    assert matching_and_kept(spark, moments, predicate) == (matching, kept)
    later = matching_and_kept(spark, moments, f"{predicate} AND x >= TIMESTAMP'2020-01-01'")
    assert later == (matching - {"0.parquet"}, {"1.parquet", "2.parquet"})


@pytest.mark.parametrize(
    ("predicate", "matching", "kept"),
    [
        ("x * -1 < -20", {"1.parquet", "2.parquet"}, {"1.parquet", "2.parquet"}),
        ("x * 4294967296L * 2147483648L = -9223372036854775808", {"0.parquet", "1.parquet"}, ALL),
        ("x / -2 > -5", {"0.parquet"}, ALL),
        ("(x | 8) = 9", {"0.parquet"}, ALL),
        ("-x = -24", {"2.parquet"}, {"2.parquet"}),
        ("abs(x) = 24", {"2.parquet"}, {"2.parquet"}),
        ("date_add(DATE'2020-01-01', -CAST(x AS SMALLINT)) < DATE'2019-12-20'", {"2.parquet"}, ALL),
    ],
)
def test_l7_arithmetic_is_not_monotone(
    spark: SparkSession, numbers: Path, predicate: str, matching: set[str], kept: set[str]
) -> None:
    """Multiplication and division by a negative, overflow, bits and date differences (Hudi's whitelist)."""
    assert matching_and_kept(spark, numbers, predicate) == (matching, kept)
    assert matching_and_kept(spark, numbers, f"({predicate}) AND x < 100")[1] == kept - {"1.parquet"}


@pytest.mark.parametrize(
    ("predicate", "matching", "kept"),
    [
        ("upper(x) = 'STRASSE'", {"2.parquet"}, {"0.parquet", "2.parquet"}),
        ("lower(x) < 'b'", {"0.parquet"}, ALL),
        ("upper(x) > 'B'", {"1.parquet", "2.parquet"}, ALL),
    ],
)
def test_l7_changes_of_case_are_not_monotone(
    spark: SparkSession, words: Path, predicate: str, matching: set[str], kept: set[str]
) -> None:
    """`upper` and `lower` (Hudi's whitelist): 'Bee' is below 'ant' and its lower case above."""
    assert matching_and_kept(spark, words, predicate) == (matching, kept)
    assert matching_and_kept(spark, words, f"{predicate} AND x >= 'a'")[1] == kept - {"1.parquet"}


def test_l7_zones_with_a_clock_change(spark: SparkSession, tmp_path: Path) -> None:
    """A repeated hour: of two instants the later one shows the earlier wall clock."""
    # 01:45 in New York, 01:30 after the clocks went back, 04:00
    instants = [1_604_209_500_000_000, 1_604_212_200_000_000, 1_604_221_200_000_000]
    folder = write_files(
        tmp_path / "t", *(pa.array([value], pa.timestamp("us", "UTC")) for value in instants)
    )
    with settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        matching, kept = matching_and_kept(
            spark, folder, "CAST(x AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ'2020-11-01 01:40:00'"
        )
        assert (matching, kept) == ({"1.parquet"}, {"0.parquet", "1.parquet"})
        matching, kept = matching_and_kept(spark, folder, "x < TIMESTAMP'2020-11-01 01:50:00'")
    assert matching == kept == {"0.parquet"}


@pytest.mark.parametrize(
    ("predicate", "matching", "kept"),
    [
        ("x % 8 = 0", {"2.parquet"}, {"2.parquet"}),
        ("pmod(x, 8) BETWEEN 1 AND 3", {"0.parquet", "1.parquet"}, ALL),
    ],
)
def test_l8_remainders_are_periodic(
    spark: SparkSession, numbers: Path, predicate: str, matching: set[str], kept: set[str]
) -> None:
    """`x % 8` taken for monotone (duckdb-iceberg#1052): it is evaluated period by period."""
    assert matching_and_kept(spark, numbers, predicate) == (matching, kept)


@pytest.mark.parametrize(
    ("predicate", "matching", "kept"),
    [
        ("hour(x) = 3", {"1.parquet"}, {"1.parquet"}),
        ("hour(x) BETWEEN 12 AND 23", {"0.parquet", "2.parquet"}, {"0.parquet", "2.parquet"}),
        ("month(x) = 1", {"1.parquet"}, {"1.parquet"}),
        ("dayofweek(x) = 3", {"0.parquet"}, ALL),
    ],
)
def test_l8_parts_of_moments_are_periodic(
    spark: SparkSession, moments: Path, predicate: str, matching: set[str], kept: set[str]
) -> None:
    """`hour(ts)` and other parts taken for monotone (databend#20442)."""
    assert matching_and_kept(spark, moments, predicate) == (matching, kept)


def test_l12_comparisons_without_regard_to_case(spark: SparkSession, words: Path) -> None:
    """ILIKE becomes LIKE over `lower`, whose bounds are not those of the column (delta#3068): both cases are tried."""
    assert matching_and_kept(spark, words, "x ILIKE 'b%'") == ({"1.parquet"}, {"1.parquet"})
    assert matching_and_kept(spark, words, "x LIKE 'B%'") == ({"1.parquet"}, {"1.parquet"})


def test_l12_a_collation_is_not_the_order_of_bytes(spark: SparkSession) -> None:
    """`s = 'A'` over a column with UTF8_LCASE, as Spark 4.3.0 writes it: 'a' equals it."""
    prefix = "org.apache.spark.sql.catalyst.expressions."

    def equal(column_type: str, literal_type: str) -> list[dict[str, object]]:
        return [
            {"class": f"{prefix}EqualTo", "num-children": 2, "left": 0, "right": 1},
            {"class": f"{prefix}AttributeReference", "num-children": 0, "name": "s", "dataType": column_type},
            {"class": f"{prefix}Literal", "num-children": 0, "value": "A", "dataType": literal_type},
        ]

    state = SessionState(version="4.3.0", zone="UTC", ansi=True)
    collated = "string collate UTF8_LCASE"
    for nodes, metadata, hidden in (
        (equal(collated, collated), {}, False),
        (equal("string", "string"), {"__COLLATIONS": {"s": "spark.UTF8_LCASE"}}, False),
        (equal("string", "string"), {}, True),
    ):
        decoded = Nodes(ExpressionTree(None), state, None, {"s": metadata}, collated=hidden).build(
            json.loads(json.dumps(nodes))
        )
        assert isinstance(decoded, Compare)
        assert isinstance(decoded.left, Opaque)
    plain = Nodes(ExpressionTree(None), state, None, {"s": {}}).build(equal("string", "string"))
    assert show(plain) == "CAST(s AS string) = 'A'"


def test_s17_files_in_the_legacy_calendar(spark: SparkSession, tmp_path: Path) -> None:
    """Spark marks such files and rebases their days: 1500-03-01 is stored as the number of 1500-03-11 or so."""
    folder = tmp_path / "t"
    legacy = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    with settings(spark, legacy):
        frame = spark.sql("SELECT DATE'1500-03-01' AS x, TIMESTAMP'1800-01-01 00:00:00' AS y")
        frame.coalesce(1).write.parquet(str(folder))
    for predicate in ("x = DATE'1500-03-01'", "x <= DATE'1500-03-01'", "y = TIMESTAMP'1800-01-01 00:00:00'"):
        matching, kept = matching_and_kept(spark, folder, predicate)
        assert len(matching) == 1
        assert matching == kept


@pytest.mark.parametrize("mode", ["LEGACY", "CORRECTED"])
def test_s17_files_whose_calendar_the_session_chooses(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    """Without a mark in the file a setting decides whether 1500-03-01 as stored is that day: old days stay unknown."""
    days = (datetime.date(1500, 2, 20), datetime.date(1500, 3, 1), datetime.date(2020, 1, 1))
    folder = write_files(tmp_path / "t", *(pa.array([day], pa.date32()) for day in days))
    found: set[str] = set()
    with settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
        for day in ("1500-02-10", "1500-02-11", "1500-02-20", "1500-03-01"):
            matching, kept = matching_and_kept(spark, folder, f"x = DATE'{day}'")
            assert matching <= kept == {"0.parquet", "1.parquet"}
            found |= matching
        assert matching_and_kept(spark, folder, "x > DATE'2020-01-01'") == (set(), {"0.parquet", "1.parquet"})
    assert found


def test_found_decimals_meet_text_in_double(spark: SparkSession, tmp_path: Path) -> None:
    """Spark casts a decimal and the text beside it to double, in which 1.00000000000000000001 is 1 (3.5.9)."""
    from decimal import Decimal

    values = ("1.00000000000000000001", "1.5", "2")
    folder = write_files(tmp_path / "t", *(pa.array([Decimal(v)], pa.decimal128(38, 20)) for v in values))
    assert matching_and_kept(spark, folder, "x = '1'") == ({"0.parquet"}, {"0.parquet"})
    assert kept_by(folder, "x = '1'", "spark") == {"0.parquet"}
    assert kept_by(folder, "x > '1'", "spark") == ALL
