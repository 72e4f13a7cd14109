"""The engines: how they differ in values, constants and files, with one row of named traits per engine.

This is the only table of engines. All other code asks a trait (`semantics.traits`), never an engine's name, so another
engine is one more row here and an adapter. A trait that a row omits has the value that prunes least: an unknown fact
about an engine costs it precision only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any, Final

from pruner.errors import PredicateError
from pruner.plugins import BrokenPluginError, Group, MissingPluginError, load_plugin


class NanOrder(Enum):
    """How an engine compares NaN with numbers."""

    GREATEST = "greatest"
    """NaN equals itself and is greater than every number (Spark, DuckDB)."""
    UNORDERED = "unordered"
    """Every comparison with NaN is false, except `!=`, which is true (Trino, IEEE 754)."""


class Clock(Enum):
    """How an engine reads a timestamp that is stored in a form on which engines differ."""

    INSTANT = "instant"
    WALL_CLOCK = "wall clock"
    UNCERTAIN = "uncertain"


class NarrowIntegers(Enum):
    """How integers of 8 and 16 bits are read, which files store in 32 (trap S24)."""

    WRAPPED = "cut to the bits of the annotation"
    UNSIGNED_WIDENED = "signed ones wrapped, unsigned ones in the next wider type"
    AS_STORED = "the number that is stored"


class Times(Enum):
    """Which times of day an engine reads as the stored number."""

    UNCERTAIN = "uncertain"
    LOCAL = "those that are not adjusted to UTC"
    ALL = "all"


class Origin(Enum):
    """Where the value of a Hudi partition column that is both in the path and in the files comes from (trap N6)."""

    FILE = "file"
    PATH = "path"
    UNCERTAIN = "uncertain"


class Mixing(Enum):
    """Which literals, other than text, an engine casts to compare them with a column of another type."""

    REFUSED = "refused"
    BOOLEANS_WITH_INTEGERS = "booleans with integers"
    TEXT_COLUMNS_AND_BOOLEANS = "columns of text, and booleans with numbers"
    UNCERTAIN = "uncertain"


class Uuids(Enum):
    """What a column of UUIDs is read as."""

    OWN_TYPE = "a type of its own"
    BYTES = "16 bytes"
    UNCERTAIN = "uncertain"


class TextCoercion(Enum):
    """What the engine's cast makes of a text literal compared with a column of another type."""

    REFUSED = "refused"
    COLUMN_TYPE = "the column's type"
    DECIMALS_TO_DOUBLE = "the column's type; beside a decimal both become double"
    UNCERTAIN = "uncertain"


class TextBytes(Enum):
    """Which bytes `CAST('…' AS BINARY)` and similar casts yield for a text."""

    ESCAPED = "escaped"
    """`\\xNN` is one byte; other printable ASCII stands for itself."""
    ENCODED = "encoded"
    """The bytes of its UTF-8 encoding."""
    UNCERTAIN = "uncertain"


class SqlEngine(StrEnum):
    """Engines whose predicates may be written as SQL text: those whose row names a dialect."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    TRINO = "trino"


# There is one object per engine. Comparing and hashing all its fields would cost every plan tens of microseconds.
@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Traits:
    """What one engine does, as far as pruning depends on it. Defaults prune least."""

    name: str
    """Name by which `Semantics`, requests and reports know the engine."""
    title: str
    """Display name."""
    nan_order: NanOrder
    """Order of NaN unless the session says otherwise (trap S2)."""
    dialect: str | None = None
    """SQL in which predicates are written, one of `pruner.expr.text.dialects`; None for an engine without SQL."""

    # How files are read.
    int96: Clock = Clock.UNCERTAIN
    """Spark reads INT96 as an instant, DuckDB as a wall clock; Trino uses a zone from its configuration (trap S10)."""
    converted_timestamps: Clock = Clock.UNCERTAIN
    """TIMESTAMP_MICROS and _MILLIS without a logical type: a wall clock in DuckDB, otherwise an instant (trap S20)."""
    asks_converted_types: bool | None = None
    """Most logical types are ignored without their converted type: DuckDB (trap S23). None where unknown."""
    narrow_integers: NarrowIntegers = NarrowIntegers.AS_STORED
    """A number in a file that does not fit its annotation: DuckDB wraps it, Spark signed ones, Trino none (S24)."""
    times: Times = Times.UNCERTAIN
    """Spark before 4.1 and Trino's connectors have no type for TIME. DuckDB reads those adjusted to UTC as TIMETZ."""
    uuids: Uuids = Uuids.UNCERTAIN
    """What a column of UUIDs is read as: a type of its own in DuckDB, 16 bytes in Polars and pyarrow."""
    reads_half_floats: bool = False
    """A column of 16-bit floating point is read as FLOAT: DuckDB."""
    asks_session_for_calendar: bool = True
    """A setting decides how old dates are read from files that name no calendar: Spark's rebase modes (trap S17)."""
    wraps_far_timestamps: bool = True
    """Timestamps near the ends of 64 bits are read as others: Trino does not check for overflow (moments)."""
    reads_padded_folders_as_text: bool = False
    """The folder `month=01` is the text 01: DuckDB, Polars, pyarrow. For Spark it is a number; for Trino the metastore
    decides (trap N2).
    """
    reads_escaped_bytes_as_utf8: bool = False
    """The folder `city=Z%C3%BCrich` is Zürich: DuckDB, Polars, pyarrow. Spark reads each byte as a character."""
    shared_partition_columns: Origin = Origin.UNCERTAIN
    """Hudi updates a moved row in its old partition: Spark and Trino then show the path's value, DuckDB the file's."""

    # Types of constants.
    bare_decimal: tuple[int, int] | None = None
    """Precision and scale of DECIMAL: (18, 3) in DuckDB, (10, 0) in Spark. Trino's `DECIMAL '1.5'` keeps its digits."""
    bare_timestamp_digits: int = 6
    """Digits of a second that TIMESTAMP keeps: 3 in Trino."""
    timestamp_literals_keep_digits: bool = False
    """`TIMESTAMP '…'` has the precision that its text has: Trino."""
    long_integers_are_decimals: bool = False
    """An integer literal beyond 64 bits is a DECIMAL: Spark."""
    long_decimals_are_doubles: bool = False
    """A decimal literal of more than 38 digits is a DOUBLE: DuckDB. Spark and Trino refuse it."""
    reads_zone_names: bool = False
    """`TIMESTAMP '2020-01-01 00:00:00 Europe/Berlin'` is an instant: Spark and Trino."""
    text_bytes: TextBytes = TextBytes.UNCERTAIN
    """Bytes of a text that is cast: DuckDB reads escapes, Spark takes the text's own bytes; Trino refuses."""
    caret_begins_text: bool = False
    """`^` in a regular expression matches the beginning of the text, not of a later line: RE2 and Java."""
    like_escape: str | None = None
    """Escape character of LIKE without ESCAPE: the backslash in Spark."""
    like_takes_lists: bool = False
    """`LIKE ANY ('a%', 'b%')` tests several patterns: Spark."""

    # Comparisons of different types.
    has_unsigned_integers: bool = False
    """Unsigned columns keep their values: DuckDB; Spark widens them. Trino has no such type."""
    text_coercion: TextCoercion = TextCoercion.UNCERTAIN
    """Text against another type: cast by DuckDB and Spark (there to double against decimals), refused by Trino."""
    casts_text_beside_bytes: bool = False
    """Text against a column of bytes becomes bytes, as in a cast: DuckDB."""
    mixing: Mixing = Mixing.UNCERTAIN
    """Other mixed types: Spark casts most, DuckDB booleans and integers, Trino refuses all."""
    writes_columns_as_text_in_lists: bool = True
    """`IN ('1', …)` compares the text of the column's values: Spark. '1.00' is a different text of an equal value."""
    lists_follow_sql: bool = False
    """NULL on the left or in the list makes IN null: SQL. In pyarrow's `isin`, NULL yields false and equals NULL."""
    casts_constants_to_null: bool = True
    """A constant that does not fit the column becomes NULL in `<=>`: Spark ('1e0' against an integer)."""
    null_in_lists_is_null: bool = False
    """`x IN (1, 2, NULL)` is NULL where x is neither. Trino wrongly treats adjacent numbers as a range."""
    counts_literal_digits: bool = False
    """An integer literal compared with a decimal has only its own digits: Spark (DecimalType.fromLiteral)."""
    decides_misfits_by_literal: bool = True
    """A decimal beyond 64 bits against an integer decides by itself, for NULL too: Spark (DecimalPrecision)."""
    rounds_beyond_38_digits: bool = False
    """Comparisons that need more than 38 digits are rounded: DuckDB. Others fail or lose digits in other ways."""
    compares_single_precision: bool = False
    """A float column is compared as float: DuckDB. Spark and Trino vary: double, float or real by case and mode."""

    # Wall clocks and instants.
    session_zone_makes_instants: bool = False
    """A wall clock becomes an instant by the session's zone: DuckDB, Spark. Trino's connectors read some as UTC."""
    session_zone_makes_wall_clocks: bool = False
    """An instant becomes a wall clock by the session's zone: DuckDB. Spark reads some naive files as instants."""
    moment_functions_take_instants: bool = True
    """`date_trunc` and `unix_millis` first convert a date or a wall clock to an instant: Spark."""
    dates_with_intervals_are_dates: bool = False
    """`date + INTERVAL` is a date, or fails: Spark and Trino. It is a timestamp in DuckDB."""
    writes_moments_rounded: bool = False
    """Moments are rounded to milliseconds before they are formatted by a pattern: Trino's `date_format`."""
    hours_make_days: bool = True
    """Every 24 hours of an interval are a day, however long the zone makes it: Spark."""
    takes_nanoseconds_for_utc: bool = True
    """A wall clock compared with an instant of nanoseconds may be read as UTC: DuckDB 2.0 (TIMESTAMPTZ_NS)."""


_ALL: Final = (
    Traits(
        name="duckdb",
        title="DuckDB",
        nan_order=NanOrder.GREATEST,
        dialect="duckdb",
        int96=Clock.WALL_CLOCK,
        converted_timestamps=Clock.WALL_CLOCK,
        asks_converted_types=True,
        narrow_integers=NarrowIntegers.WRAPPED,
        times=Times.LOCAL,
        uuids=Uuids.OWN_TYPE,
        reads_half_floats=True,
        asks_session_for_calendar=False,
        wraps_far_timestamps=False,
        reads_padded_folders_as_text=True,
        reads_escaped_bytes_as_utf8=True,
        shared_partition_columns=Origin.FILE,
        bare_decimal=(18, 3),
        long_decimals_are_doubles=True,
        text_bytes=TextBytes.ESCAPED,
        caret_begins_text=True,
        has_unsigned_integers=True,
        text_coercion=TextCoercion.COLUMN_TYPE,
        casts_text_beside_bytes=True,
        mixing=Mixing.BOOLEANS_WITH_INTEGERS,
        writes_columns_as_text_in_lists=False,
        lists_follow_sql=True,
        null_in_lists_is_null=True,
        casts_constants_to_null=False,
        decides_misfits_by_literal=False,
        rounds_beyond_38_digits=True,
        compares_single_precision=True,
        session_zone_makes_instants=True,
        session_zone_makes_wall_clocks=True,
        moment_functions_take_instants=False,
        hours_make_days=False,
    ),
    Traits(
        name="spark",
        title="Spark",
        nan_order=NanOrder.GREATEST,
        dialect="spark",
        int96=Clock.INSTANT,
        converted_timestamps=Clock.INSTANT,
        asks_converted_types=False,
        narrow_integers=NarrowIntegers.UNSIGNED_WIDENED,
        asks_session_for_calendar=True,
        wraps_far_timestamps=False,
        shared_partition_columns=Origin.PATH,
        bare_decimal=(10, 0),
        long_integers_are_decimals=True,
        reads_zone_names=True,
        text_bytes=TextBytes.ENCODED,
        caret_begins_text=True,
        like_escape="\\",
        like_takes_lists=True,
        has_unsigned_integers=True,
        text_coercion=TextCoercion.DECIMALS_TO_DOUBLE,
        mixing=Mixing.TEXT_COLUMNS_AND_BOOLEANS,
        writes_columns_as_text_in_lists=True,
        lists_follow_sql=True,
        null_in_lists_is_null=True,
        casts_constants_to_null=True,
        decides_misfits_by_literal=True,
        counts_literal_digits=True,
        session_zone_makes_instants=True,
        moment_functions_take_instants=True,
        dates_with_intervals_are_dates=True,
        hours_make_days=True,
        takes_nanoseconds_for_utc=False,
    ),
    Traits(
        name="trino",
        title="Trino",
        nan_order=NanOrder.UNORDERED,
        dialect="trino",
        converted_timestamps=Clock.INSTANT,
        asks_converted_types=False,
        asks_session_for_calendar=False,
        wraps_far_timestamps=True,
        shared_partition_columns=Origin.PATH,
        bare_timestamp_digits=3,
        timestamp_literals_keep_digits=True,
        reads_zone_names=True,
        text_coercion=TextCoercion.REFUSED,
        mixing=Mixing.REFUSED,
        writes_columns_as_text_in_lists=False,
        lists_follow_sql=True,
        null_in_lists_is_null=False,
        casts_constants_to_null=False,
        decides_misfits_by_literal=False,
        moment_functions_take_instants=False,
        dates_with_intervals_are_dates=True,
        writes_moments_rounded=True,
        hours_make_days=False,
        takes_nanoseconds_for_utc=False,
    ),
    # Engines in Python read what `pruner_python` hands them. They use expressions for predicates and have no SQL here.
    Traits(
        name="polars",
        title="Polars",
        nan_order=NanOrder.GREATEST,
        asks_converted_types=False,
        narrow_integers=NarrowIntegers.WRAPPED,
        times=Times.ALL,
        uuids=Uuids.BYTES,
        asks_session_for_calendar=False,
        reads_padded_folders_as_text=True,
        reads_escaped_bytes_as_utf8=True,
        shared_partition_columns=Origin.FILE,
    ),
    Traits(
        name="pyarrow",
        title="pyarrow",
        nan_order=NanOrder.UNORDERED,
        converted_timestamps=Clock.INSTANT,
        asks_converted_types=False,
        narrow_integers=NarrowIntegers.WRAPPED,
        times=Times.ALL,
        uuids=Uuids.BYTES,
        asks_session_for_calendar=False,
        reads_padded_folders_as_text=True,
        reads_escaped_bytes_as_utf8=True,
        shared_partition_columns=Origin.FILE,
    ),
)

ENGINES: Final = {traits.name: traits for traits in _ALL}
"""Every engine by its name."""

REFERENCE_ENGINE: Final = SqlEngine.DUCKDB.value
"""The engine whose rules hold by default, and whose evaluator computes indexed expressions."""


def traits_of(engine: str) -> Traits:
    """The traits of an engine by its name: a row above, or those that the engine's adapter provides.

    Raises:
        PredicateError: there is no such engine.
    """
    traits = ENGINES.get(engine)
    return _traits_of_adapter(engine) if traits is None else traits


def _traits_of_adapter(name: str) -> Traits:
    if name.lower() in ENGINES:
        raise PredicateError(f"unknown engine {name!r}: did you mean {name.lower()!r}?")
    try:
        adapter: Any = load_plugin(Group.ADAPTERS, name)
    except MissingPluginError as error:
        with_sql = [engine.value for engine in SqlEngine]
        others = ", ".join(known for known in ENGINES if known not in with_sql)
        raise PredicateError(
            f"unknown engine {name!r}: use one of {', '.join(with_sql)} (for predicates that are expressions also "
            f"{others}), or install its adapter"
        ) from error
    except BrokenPluginError as error:
        raise PredicateError(str(error)) from error
    traits = getattr(adapter, "traits", None)
    if not isinstance(traits, Traits) or traits.name != name:
        raise PredicateError(f"the adapter of {name!r} defines no traits, so its rules are unknown")
    return traits
