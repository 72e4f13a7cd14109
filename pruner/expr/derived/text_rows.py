"""Rows of functions of text: see `pruner.expr.derived.function`."""

from __future__ import annotations

from typing import Final

from pruner.expr.derived import rising
from pruner.expr.derived.function import (
    ANYWHERE,
    ASCII,
    BIGINT,
    DUCKDB,
    SPARK,
    TRINO,
    VARCHAR,
    Function,
    everywhere,
    is_any_text,
    is_column_integer,
    is_count,
    is_text,
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
)
