"""The table `tests/spec/catalyst.txt`: the expression form of what Spark's optimizer makes of a predicate.

A line `== name=value …` sets the session's settings for the lines that follow. Then come pairs: a predicate over the
columns below, and after `=>` what a scan gets, with `?(text: reason)` for a part that is not understood,
or `no filter` where Spark decides by itself. Spark adds `x IS NOT NULL` where a comparison of x follows.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.binding.bind import bind
from pruner.expr.nodes import And, Call, Compare, Expr, In, IsNull, Like, Not, Opaque, Or
from pruner.expr.show import show
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from tests.support.cases.spec import Case, cases
from tests.support.losses import indexed, write_files
from tests.support.running.patience import PATIENCE
from tests.support.spark.catalyst import condition, counted_calls, parquet_schema, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROW = pa.table(
    {
        "b": pa.array([True]),
        "i8": pa.array([1], pa.int8()),
        "i16": pa.array([1], pa.int16()),
        "i32": pa.array([1], pa.int32()),
        "i64": pa.array([1], pa.int64()),
        "f": pa.array([1.0], pa.float32()),
        "d": pa.array([1.0]),
        "dec": pa.array([Decimal("1.00")], pa.decimal128(9, 2)),
        "big": pa.array([Decimal("1.000000")], pa.decimal128(30, 6)),
        "s": pa.array(["a"]),
        "bin": pa.array([b"a"]),
        "day": pa.array([datetime.date(2020, 1, 1)]),
        "ts": pa.array([0], pa.timestamp("us", "UTC")),
        "ntz": pa.array([0], pa.timestamp("us")),
        "st": pa.array(
            [{"x": 1, "y": {"z": "q"}}],
            pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))]),
        ),
        "li": pa.array([[1]], pa.list_(pa.int32())),
        "Two Words": pa.array([1], pa.int32()),
    }
)


CASES = cases("catalyst.txt")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalyst") / "t.parquet"
    pq.write_table(ROW, path)
    return path


@pytest.fixture
def t(spark: SparkSession, file: Path) -> str:
    """The name of the view over all types."""
    spark.read.parquet(str(file)).createOrReplaceTempView("catalyst_t")
    return "catalyst_t"


def decoded(spark: SparkSession, view: str, predicate: str, file: Path) -> Expr | None:
    left = condition(spark.sql(f"SELECT 1 FROM {view} AS t WHERE {predicate}"))
    return None if left is None else decode(left, session_state(spark), parquet_schema(file))


def marked(node: Expr) -> Expr:
    """The expression with the reasons of its opaque parts added to their texts."""
    match node:
        case Opaque(columns, text, reason):
            return Opaque(columns, f"?({text}: {reason})", reason)
        case And(operands):
            return And(tuple(marked(operand) for operand in operands))
        case Or(operands):
            return Or(tuple(marked(operand) for operand in operands))
        case Not(operand):
            return Not(marked(operand))
        case Compare(operator, left, right):
            return Compare(operator, marked(left), marked(right))
        case In(operand, options):
            return In(marked(operand), options)
        case IsNull(operand):
            return IsNull(marked(operand))
        case Like(operand, pattern, escape):
            return Like(marked(operand), pattern, escape)
        case Call(name, arguments, data_type):
            return Call(name, tuple(marked(argument) for argument in arguments), data_type)
        case _:
            return node


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.place)
def test_decoding(spark: SparkSession, t: str, file: Path, case: Case) -> None:
    with settings(spark, dict(rule.split("=", 1) for rule in case.part.split())):
        expression = decoded(spark, t, case.text, file)
        semantics = session_state(spark).semantics()
    assert ("no filter" if expression is None else show(marked(expression))) == case.behind("=>")
    if expression is not None:
        bind(expression, parquet_schema(file), semantics, strict=False)


def test_the_table_is_read() -> None:
    assert len(CASES) >= 80


def test_round_trips_are_few(
    spark: SparkSession, t: str, file: Path, record_property: Callable[[str, object], None]
) -> None:
    state, schema = session_state(spark), parquet_schema(file)
    values = ", ".join(str(value) for value in range(100_000))
    predicates = {
        "no value to fetch": ("s = 'a' AND (i32 > 5 OR dec < 1.5) AND st.y.z LIKE 'q%'", 6),
        "a list of 100,000": (f"i32 IN ({values})", 11),
        "one date, two moments": (
            "day > DATE'2020-01-01' AND ts BETWEEN TIMESTAMP'2020-01-01' AND TIMESTAMP'2021-01-01'",
            12,
        ),
        "LIKE with a wildcard in it": ("s LIKE 'a_b'", 8),
    }
    decode(condition(spark.sql(f"SELECT 1 FROM {t} WHERE i32 = 1")), state, schema)  # requests made once
    figures: list[str] = []
    for name, (predicate, most) in predicates.items():
        left = condition(spark.sql(f"SELECT 1 FROM {t} WHERE {predicate}"))
        started = time.perf_counter()
        with counted_calls(spark) as sent:
            expression = decode(left, state, schema)
        figures.append(f"{name} {len(sent)} calls {(time.perf_counter() - started) * 1000:.1f} ms")
        assert len(sent) <= most, (name, sent)
        assert not isinstance(expression, Opaque)
    with counted_calls(spark) as sent:
        session_state(spark)
    figures.append(f"the session's rules {len(sent)} calls")
    assert len(sent) <= 12
    record_property("figure", "py4j round trips of decoding: " + ", ".join(figures))


def test_a_long_list_holds_every_value(spark: SparkSession, t: str, file: Path) -> None:
    values = ", ".join(f"'{value}'" for value in range(5_000))
    expression = decoded(spark, t, f"s NOT IN ({values})", file)
    assert isinstance(expression, Not)
    assert isinstance(expression.operand, In)
    assert {option.value for option in expression.operand.options} == set(map(str, range(5_000)))


@pytest.mark.parametrize(
    "texts", [["a\x1fb", "\r", "\n", "\x00", "null", "", " ", "\\", '"', "é", "🐋", ","]]
)
def test_texts_of_a_set_are_told_apart(spark: SparkSession, t: str, file: Path, texts: list[str]) -> None:
    from pyspark.sql import functions

    frame = spark.table(t).where(functions.col("s").isin(texts))
    expression = decode(condition(frame), session_state(spark), parquet_schema(file))
    assert isinstance(expression, In)
    assert {option.value for option in expression.options} == set(texts)


def test_2_000_alternatives(spark: SparkSession, t: str, file: Path) -> None:
    expression = decoded(spark, t, " OR ".join(f"(i32 = {k} AND d > {k})" for k in range(2_000)), file)
    assert isinstance(expression, Or)
    assert len(expression.operands) == 2_000
    same_column = decoded(spark, t, " OR ".join(f"s = 'v{k}'" for k in range(2_000)), file)
    assert isinstance(same_column, In)
    assert len(same_column.options) == 2_000
    moments = " OR ".join(f"(ts = TIMESTAMP'2020-01-01' + INTERVAL {k} SECONDS)" for k in range(2_000))
    beyond = decoded(spark, t, moments, file)
    assert isinstance(beyond, Or)
    assert (
        sum(isinstance(each, Compare) and isinstance(each.right, Opaque) for each in beyond.operands) == 1_000
    )
    bind(beyond, parquet_schema(file), session_state(spark).semantics(), strict=False)


def test_deep_nesting_is_opaque_below_a_level(spark: SparkSession, t: str, file: Path) -> None:
    from pyspark.sql import functions

    i32, d = functions.col("i32"), functions.col("d")
    nested = i32 == 0
    for k in range(130):
        nested = (nested | (d > k)) if k % 2 else (nested & (d > k))
    expression = decode(condition(spark.table(t).where(nested)), session_state(spark), parquet_schema(file))
    assert "nested too deeply" in show(marked(expression), 100_000)
    assert "d > 129.0" in show(expression, 100_000)
    bind(expression, parquet_schema(file), session_state(spark).semantics(), strict=False)


def test_nested_cases_do_not_multiply(spark: SparkSession, t: str, file: Path) -> None:
    """`toJSON` repeats the branches of a CASE: 20 nested ones would be a million times the text."""
    text = "d"
    for k in range(24):
        text = f"CASE WHEN i64 = {k} THEN {k}.5 WHEN f = {k} THEN {text} ELSE i32 + {k} END"
    started = time.perf_counter()
    expression = decoded(spark, t, f"({text}) > 5 AND s = 'a'", file)
    assert isinstance(expression, And)
    opaque = [each for each in expression.operands if isinstance(each, Opaque)]
    assert [each.reason for each in opaque] == ["more than 6 cases"]
    assert "s = 'a'" in show(expression)
    assert time.perf_counter() - started < PATIENCE


def test_an_unknown_function_is_opaque_with_its_columns(spark: SparkSession, t: str, file: Path) -> None:
    expression = decoded(spark, t, "i32 = 5 AND hash(s, i64) > 3", file)
    assert isinstance(expression, And)
    compared = [each.left for each in expression.operands if isinstance(each, Compare)]
    [unknown] = [each for each in compared if isinstance(each, Opaque)]
    assert [str(column) for column in unknown.columns] == ["s", "i64"]


def test_without_a_schema_every_column_is_a_cast(spark: SparkSession, t: str, file: Path) -> None:
    left = condition(spark.sql(f"SELECT 1 FROM {t} WHERE i32 = 5"))
    expression = decode(left, session_state(spark))
    assert show(expression) == "NOT (CAST(i32 AS int32) IS NULL) AND CAST(i32 AS int32) = 5"
    semantics = session_state(spark).semantics()
    plain = bind(decode(left, session_state(spark), parquet_schema(file)), parquet_schema(file), semantics)
    bound = bind(expression, parquet_schema(file), semantics)
    assert bound == plain, "a cast to the type that the file has anyway changes nothing"


def test_a_column_read_as_another_type_is_a_cast(spark: SparkSession, file: Path) -> None:
    frame = (
        spark.read.schema("i32 BIGINT, i64 BIGINT, s STRING")
        .parquet(str(file))
        .where("i32 = 5 OR i32 IS NULL")
    )
    expression = decode(condition(frame), session_state(spark), parquet_schema(file))
    assert show(expression) == "CAST(i32 AS int64) = 5 OR CAST(i32 AS int64) IS NULL"


def test_columns_of_files_are_not_columns_of_the_table(spark: SparkSession, file: Path) -> None:
    frame = spark.read.parquet(str(file)).where("_metadata.file_size > 5 AND i32 = 5")
    expression = decode(condition(frame), session_state(spark), parquet_schema(file))
    assert "?(GetStructField(_metadata): a field of something that is not a column) > 5" in show(
        marked(expression)
    )
    assert "i32 = 5" in show(expression)


def test_columns_by_field_id_are_opaque(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StructField, StructType

    path = tmp_path / "ids.parquet"
    pq.write_table(
        pa.table(
            [pa.array([5], pa.int32())],
            schema=pa.schema([pa.field("x", pa.int32(), metadata={"PARQUET:field_id": "2"})]),
        ),
        path,
    )
    schema = StructType([StructField("x", IntegerType(), True, {"parquet.field.id": 1})])
    frame = spark.read.schema(schema).parquet(str(path)).where("x = 5")
    for enabled, understood in (("false", True), ("true", False)):
        with settings(spark, {"spark.sql.parquet.fieldId.read.enabled": enabled}):
            expression = decode(condition(frame), session_state(spark), parquet_schema(path))
        assert (show(marked(expression)) == "NOT (x IS NULL) AND x = 5") is understood


def test_whatever_goes_wrong_is_an_opaque_predicate(spark: SparkSession) -> None:
    expression = decode(object(), session_state(spark))
    assert isinstance(expression, Opaque)
    assert "while decoding it" in expression.reason


@pytest.mark.parametrize(
    ("predicate", "found", "kept"),
    [
        ("c = 'ab'", {"ab   "}, 3),
        ("c IN ('zz', 'b')", {"zz   "}, 3),
        ("c LIKE 'ab%'", {"ab   "}, 3),
        ("c <> 'ab'", {"zz   "}, 3),
        ("c = 'ab' AND v >= 'y'", set[str](), 1),
        ("v = 'ab'", {"ab   "}, 1),
        ("v = 'ab   '", {"ab   "}, 1),
    ],
)
def test_char_is_read_through_padding(
    spark: SparkSession, tmp_path: Path, predicate: str, found: set[str], kept: int
) -> None:
    """A CHAR column is padded on read, so that 'ab' as stored equals 'ab   ': its bounds prove nothing."""
    stored = ("ab", "ab   ", "zz")
    folder = write_files(tmp_path / "t", *(pa.table({"c": [text], "v": [text]}) for text in stored))
    spark.sql(f"CREATE TABLE chars (c CHAR(5), v VARCHAR(5)) USING parquet LOCATION '{folder}'")
    try:
        left = condition(spark.sql(f"SELECT 1 FROM chars WHERE {predicate}"))
        expression = decode(left, session_state(spark), parquet_schema(folder / "0.parquet"))
        assert {row[0] for row in spark.sql(f"SELECT c FROM chars WHERE {predicate}").collect()} == found
    finally:
        spark.sql("DROP TABLE chars")
    plan = indexed(folder).plan(expression, semantics=session_state(spark).semantics())
    assert plan.kept == kept
