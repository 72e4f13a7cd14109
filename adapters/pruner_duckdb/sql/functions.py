"""Which functions the shadow database may evaluate instead of the user's session.

DuckDB's optimizer evaluates a function of constants while it plans. For the functions below the value depends only on
their arguments and the session's time zone, which the shadow mirrors. Every other scalar function of a statement is
made unfoldable before the shadow sees it, so that it can only become an opaque part of a predicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


_OPERATORS = _names(
    "+ - * / // % ** ^ & | << >> ~ || ! @ ~~ !~~ ~~* !~~* ~~~ ^@ && <@ @>",
)

_TEXT = _names(
    "upper ucase lower lcase length len char_length character_length strlen substring substr",
    "substring_grapheme left right trim ltrim rtrim lpad rpad concat concat_ws replace reverse repeat",
    "starts_with prefix suffix ends_with contains like_escape not_like_escape ilike_escape",
    "not_ilike_escape regexp_matches regexp_full_match regexp_replace regexp_extract position instr",
    "strpos ascii chr unicode ord md5 hash split split_part string_split strip_accents translate format",
    "json_extract_string json_extract_path_text ->>",
    "printf bar to_base hex unhex encode decode base64 from_base64 to_base64 levenshtein nfc_normalize",
)

_NUMBERS = _names(
    "abs sign ceil ceiling floor round trunc sqrt cbrt exp ln log log2 log10 pow power mod fmod fdiv",
    "divide multiply add subtract greatest least sin cos tan asin acos atan atan2 cot degrees radians",
    "pi isnan isinf isfinite gcd lcm factorial even nextafter bit_count xor",
)

_TIME = _names(
    "year month day hour minute second quarter week weekofyear dayofweek dayofmonth dayofyear isodow",
    "isoyear weekday yearweek decade century millennium microsecond millisecond nanosecond epoch epoch_ms",
    "epoch_us epoch_ns date_part datepart date_trunc datetrunc date_diff datediff date_sub datesub",
    "date_add last_day make_date make_timestamp make_time monthname dayname strftime strptime",
    "try_strptime time_bucket timezone to_timestamp to_years to_months to_weeks to_days to_hours",
    "to_minutes to_seconds to_milliseconds to_microseconds",
)

_OTHERS = _names(
    "if ifnull nullif coalesce list_value struct_pack row struct_extract array_extract list_extract",
    "list_contains list_has array_contains array_has map map_extract element_at constant_or_null",
)

_OF_LAMBDAS = _names(
    "list_transform list_apply array_transform array_apply apply list_filter array_filter filter",
    "list_reduce array_reduce reduce",
)
"""Their results follow from the lambda, whose own functions are checked one by one. A bound plan contains the lambda's
expression, so a comparison of two sessions' plans includes it; no predicate over such a function is understood.
"""

_OF_LISTS = _names(
    "list_sum list_avg list_min list_max list_product list_count list_unique list_first list_last",
    "list_any_value list_concat list_cat array_concat list_append list_prepend list_position list_indexof",
    "list_reverse array_reverse list_slice array_slice array_length array_to_string flatten",
    "map_keys map_values map_entries cardinality",
)
"""Dependent only on their arguments; sorting is excluded, since `default_null_order` belongs to the session."""

_VOLATILE = _names("random uuid gen_random_uuid uuidv4 uuidv7")
"""Never evaluated while planning, by DuckDB's own rule."""

ALLOWED_FUNCTIONS = _OPERATORS | _TEXT | _NUMBERS | _TIME | _OTHERS
"""Scalar functions whose value depends only on their arguments and the session's time zone."""

ROWWISE_FUNCTIONS = ALLOWED_FUNCTIONS | _OF_LISTS
"""DuckDB's own functions that yield one value for each row: no aggregates, and none that produces rows."""

_OF_ROWS = _names("unnest unlist")
"""They produce rows, so they are never evaluated while planning either."""

FOLDABLE = ALLOWED_FUNCTIONS | _VOLATILE | _OF_LAMBDAS | _OF_LISTS | _OF_ROWS
"""Functions that may be passed to the shadow unchanged."""

_OF_SESSION = _names("getvariable current_setting in_search_path version")
"""Dependent on the session, although DuckDB 1.5 declares some of them consistent."""

_REPEATABLE_KINDS = frozenset(["scalar", "aggregate", "window"])
_REPEATABLE_MACROS = ("array_", "json_group_", "list_", "map_contains_")
"""Prefixes of the names of DuckDB's own macros that consist of such functions only."""


def repeatable_functions(listed: Iterable[tuple[str, Sequence[str], bool]]) -> frozenset[str]:
    """Functions whose results depend neither on the session nor on the current time, and that change nothing.

    Args:
        listed: for each of DuckDB's functions, its name, its kinds, and whether all overloads are declared consistent.
    """
    return FOLDABLE | frozenset(
        name
        for name, kinds, consistent in listed
        if consistent
        and name not in _OF_SESSION
        and not name.startswith("current_")
        and (_REPEATABLE_KINDS.issuperset(kinds) or name.startswith(_REPEATABLE_MACROS))
    )


VALUE_BLIND = _names(
    "+ - * / // % || abs lower upper coalesce ifnull nullif year month day hour",
    "count count_star sum avg min max",
)
"""Functions of DuckDB that inspect only the types of their arguments when a statement is bound: a macro with such a
name cannot pass for the function with one constant and be something else with another.
"""

SESSION_VALUES = _names(
    "current_catalog current_date current_schema current_role current_time current_timestamp",
    "current_user localtime localtimestamp session_user user",
)
"""Names without parentheses that are functions of the session unless a column has that name."""
