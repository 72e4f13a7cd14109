"""Rows of functions of text: see `pruner.expr.functions.function`."""

from __future__ import annotations

from typing import Final

from pruner.expr.functions import rising
from pruner.expr.functions.function import (
    ANYWHERE,
    ASCII,
    BIGINT,
    DATE,
    DUCKDB,
    PRINTABLE,
    SPARK,
    TRINO,
    VARCHAR,
    Accepts,
    Function,
    everywhere,
    is_any_text,
    is_column_integer,
    is_constant_text,
    is_count,
    is_field_name,
    is_full_text,
    is_set_of_letters,
    is_text,
)


def _of_text(
    name: str, sql: str, *more: Accepts, domain: str = ASCII, values: str = "ASCII", **compared: str
) -> Function:
    """A function of a text and constants that comes to text."""
    return Function(
        name=name,
        accepts=(is_text, *more),
        result=VARCHAR,
        sql=sql,
        domain=domain,
        values=values,
        compared=compared,
    )


def _counted(name: str, sql: str, *more: Accepts, domain: str, values: str, **compared: str) -> Function:
    """A function of a text and constants that comes to a whole number."""
    return Function(
        name=name,
        accepts=(is_text, *more),
        result=BIGINT,
        sql=sql,
        domain=domain,
        values=values,
        compared=compared,
    )


_PLAIN: Final = "ASCII without control characters"
_PADDED: Final = "ASCII; a length from 1 on"

_SHAPED: Final = (
    _of_text("trim", "trim({0})", domain=PRINTABLE, values=_PLAIN, **everywhere("trim(s)")),
    _of_text("ltrim", "ltrim({0})", domain=PRINTABLE, values=_PLAIN, **everywhere("ltrim(s)")),
    _of_text("rtrim", "rtrim({0})", domain=PRINTABLE, values=_PLAIN, **everywhere("rtrim(s)")),
    _of_text("reverse", "reverse({0})", domain=PRINTABLE, values=_PLAIN, **everywhere("reverse(s)")),
    _of_text(
        "replace",
        "replace({0}, {1}, {2})",
        is_full_text,
        is_constant_text,
        domain=ANYWHERE,
        values="text; what is replaced is not empty",
        **everywhere("replace(s, 'a', 'b')"),
    ),
    _of_text(
        "translate",
        "translate({0}, {1}, {2})",
        is_set_of_letters,
        is_constant_text,
        values="ASCII; no letter is replaced twice",
        **everywhere("translate(s, 'ab', 'cd')"),
    ),
    _of_text(
        "split_part",
        "split_part({0}, {1}, {2})",
        is_full_text,
        is_count,
        domain=f"{ASCII} AND len(string_split({{0}}, {{1}})) >= {{2}}",
        values="ASCII with as many parts",
        **everywhere("split_part(s, ',', 2)"),
    ),
    _of_text("right", "right({0}, {1})", is_count, values=_PADDED, duckdb="right(s, 3)", spark="right(s, 3)"),
    _of_text(
        "lpad", "lpad({0}, {1}, {2})", is_count, is_full_text, values=_PADDED, **everywhere("lpad(s, 9, '0')")
    ),
    _of_text(
        "rpad", "rpad({0}, {1}, {2})", is_count, is_full_text, values=_PADDED, **everywhere("rpad(s, 9, '0')")
    ),
    _of_text(
        "md5",
        "md5({0})",
        domain=ANYWHERE,
        values="text",
        duckdb="md5(s)",
        spark="md5(s)",
        trino="lower(to_hex(md5(to_utf8(s))))",
    ),
    _of_text(
        "sha256",
        "sha256({0})",
        domain=ANYWHERE,
        values="text",
        duckdb="sha256(s)",
        spark="sha2(s, 256)",
        trino="lower(to_hex(sha256(to_utf8(s))))",
    ),
    _of_text(
        "hex",
        "hex({0})",
        domain=ANYWHERE,
        values="text",
        duckdb="hex(s)",
        spark="hex(s)",
        trino="to_hex(to_utf8(s))",
    ),
    _counted(
        "position",
        "instr({0}, {1})",
        is_full_text,
        domain=ASCII,
        values="ASCII",
        duckdb="instr(s, 'a')",
        spark="instr(s, 'a')",
        trino="strpos(s, 'a')",
    ),
    _counted("ascii", "ascii({0})", domain=ASCII, values="ASCII", duckdb="ascii(s)", spark="ascii(s)"),
    _counted(
        "bytes",
        "strlen({0})",
        domain=ANYWHERE,
        values="text",
        duckdb="strlen(s)",
        spark="octet_length(s)",
        trino="length(to_utf8(s))",
    ),
    _counted(
        "bits",
        "bit_length({0})",
        domain=ANYWHERE,
        values="text",
        duckdb="bit_length(s)",
        spark="bit_length(s)",
    ),
    _counted(
        "integer",
        "({0}::BIGINT)",
        domain="regexp_full_match({0}, '0|-?[1-9][0-9]{{0,17}}')",
        values="text of digits, without zeros or signs that are not needed",
        duckdb="s::BIGINT",
        spark="bigint(s)",
        trino="CAST(s AS bigint)",
    ),
    _of_text(
        "coalesce",
        "coalesce({0}, {1})",
        is_constant_text,
        domain=ANYWHERE,
        values="text and a constant",
        **everywhere("coalesce(s, 'x')"),
    ),
    _of_text(
        "nullif",
        "nullif({0}, {1})",
        is_constant_text,
        domain=ANYWHERE,
        values="text and a constant",
        **everywhere("nullif(s, '')"),
    ),
)

_JSON: Final = (
    # TRY: DuckDB may evaluate a part before it knows whether it is needed.
    r"CASE WHEN {0} IS NULL THEN true"
    r" WHEN NOT json_valid({0}) OR strlen({0}) > 50000 OR contains({0}, '\') THEN false"
    r" WHEN TRY(json_type({0})) <> 'OBJECT' OR len(list_filter(TRY(json_keys({0})), lambda k: k = {1})) > 1 THEN false"
    # DuckDB alone takes these for JSON.
    r" WHEN regexp_matches({0}, ',\s*[}}\]]|[:\[,]\s*[-+]?(?i:nan|inf)') THEN false"
    # Readers end at some depth, and write some numbers anew.
    r" WHEN strlen({0}) - strlen(replace(replace({0}, '[', ''), '{{', '')) > 200 THEN false"
    r" WHEN regexp_matches({0}, '[0-9]{{200}}|:\s*-0[\s,}}]') THEN false"
    r" WHEN TRY(json_type({0}, '$.' || {1})) IN ('UBIGINT', 'BIGINT')"
    r" THEN regexp_full_match(TRY({0} ->> {1}), '-?[0-9]{{1,18}}')"
    r" ELSE coalesce(TRY(json_type({0}, '$.' || {1})), 'NULL') IN ('NULL', 'VARCHAR', 'BOOLEAN') END"
)

_OTHERS: Final = (
    Function(
        name="json field",
        accepts=(is_text, is_field_name),
        result=VARCHAR,
        sql="({0} ->> {1})",
        domain=_JSON,
        values="text of one JSON object without backslashes; the field is there once at most, and is a text, "
        "an integer up to 18 digits, a truth value or null",
        compared={
            DUCKDB: "s ->> '$.a'",
            SPARK: "get_json_object(s, '$.a')",
            TRINO: "json_extract_scalar(s, '$.a')",
        },
    ),
    Function(
        name="date of text",
        accepts=(is_text,),
        result=DATE,
        sql="TRY_CAST({0} AS DATE)",
        written="{0}::DATE",
        domain="coalesce(regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
        " AND TRY_CAST({0} AS DATE) BETWEEN DATE '1900-01-01' AND DATE '9999-12-31', {0} IS NULL)",
        values="text of a date of the years 1900 to 9999, as 2024-05-01",
        compared={DUCKDB: "s::DATE", SPARK: "CAST(s AS DATE)", TRINO: "CAST(s AS date)"},
    ),
    _counted(
        "levenshtein",
        "levenshtein({0}, {1})",
        is_any_text,
        domain=f"{ASCII} AND strlen({{1}}) = length({{1}})",
        values="ASCII",
        duckdb="levenshtein(a, b)",
        spark="levenshtein(a, b)",
        trino="levenshtein_distance(a, b)",
    ),
    _of_text(
        "repeat",
        "repeat({0}, {1})",
        is_count,
        domain="strlen({0}) * {1} < 100000",
        values="text; a count from 1 on, results below 100,000 bytes",
        duckdb="repeat(s, 3)",
        spark="repeat(s, 3)",
    ),
)

TEXT_ROWS: Final = (
    Function(
        name="upper",
        accepts=(is_text,),
        result=VARCHAR,
        sql="upper({0})",
        domain=ASCII,
        values="ASCII",
        compared=everywhere("upper(s)"),
    ),
    Function(
        name="lower",
        accepts=(is_text,),
        result=VARCHAR,
        sql="lower({0})",
        domain=ASCII,
        values="ASCII",
        compared=everywhere("lower(s)"),
    ),
    Function(
        name="length",
        accepts=(is_text,),
        result=BIGINT,
        sql="length({0})",
        domain=ASCII,
        values="ASCII",
        compared=everywhere("length(s)"),
    ),
    Function(
        name="substring",
        accepts=(is_text, is_count, is_count),
        result=VARCHAR,
        sql="substring({0}, {1}, {2})",
        domain=ASCII,
        values="ASCII; constants from 1 on",
        compared={
            DUCKDB: "substring(s, 2, 3), left(s, 3)",
            SPARK: "substring(s, 2, 3), left(s, 3)",
            TRINO: "substring(s, 2, 3)",
        },
        rises=rising.beginning,
        in_order="from the first character",
    ),
    Function(
        name="join",
        accepts=(is_any_text, is_any_text),
        result=VARCHAR,
        sql="({0} || {1})",
        domain=ANYWHERE,
        values="text",
        compared=everywhere("a || b"),
    ),
    Function(
        name="text",
        accepts=(is_column_integer,),
        result=VARCHAR,
        sql="({0}::VARCHAR)",
        domain=ANYWHERE,
        values="integers",
        compared={DUCKDB: "a::VARCHAR", SPARK: "string(a)", TRINO: "CAST(a AS varchar)"},
    ),
    *_SHAPED,
    *_OTHERS,
)
