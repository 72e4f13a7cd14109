"""Rows of functions of text: see `pruner.expr.derived.function`."""

from __future__ import annotations

from typing import Final

from pruner.expr.derived import rising
from pruner.expr.derived.function import (
    ANYWHERE,
    ASCII,
    BIGINT,
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
    _of_text("md5", "md5({0})", domain=ANYWHERE, values="text", duckdb="md5(s)", spark="md5(s)"),
    _of_text(
        "sha256", "sha256({0})", domain=ANYWHERE, values="text", duckdb="sha256(s)", spark="sha2(s, 256)"
    ),
    _of_text("hex", "hex({0})", domain=ANYWHERE, values="text", duckdb="hex(s)", spark="hex(s)"),
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
        "bytes", "strlen({0})", domain=ANYWHERE, values="text", duckdb="strlen(s)", spark="octet_length(s)"
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
)
