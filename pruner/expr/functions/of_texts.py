"""Rows of functions of text: see `pruner.expr.functions.function`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from pruner.expr.functions import rising, shapes, texts
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
    Cast,
    Evaluation,
    Function,
    Preimage,
    Result,
    everywhere,
    is_any_text,
    is_constant_text,
    is_count,
    is_field_name,
    is_full_text,
    is_set_of_letters,
    is_text,
    own,
    spelled,
)
from pruner.expr.types import is_string

_PLAIN: Final = "ASCII without control characters"
_PADDED: Final = "ASCII; a length from 1 on"
_CHANGED: Final = 2
"""Registry version since which text that is not UTF-8 is in no domain."""


def _text(
    sql: str,
    *more: Accepts,
    result: Result = VARCHAR,
    domain: str = ASCII,
    values: str = "ASCII",
    of_null: bool = False,
    compared: Mapping[str, str],
) -> Evaluation:
    """A function of a text and others, which yields text unless a result is given."""
    return Evaluation(
        accepts=(is_text, *more),
        result=result,
        sql=sql,
        domain=domain,
        values=values,
        compared=compared,
        of_null=of_null,
        changed=_CHANGED,
    )


OR_A_TEXT: Final = {
    "coalesce": _text(
        "coalesce({0}, {1})",
        is_constant_text,
        domain=ANYWHERE,
        values="text and a constant",
        of_null=True,
        compared=everywhere("coalesce(s, 'x')"),
    ),
    "nullif": _text(
        "nullif({0}, {1})",
        is_constant_text,
        domain=ANYWHERE,
        values="text and a constant",
        compared=everywhere("nullif(s, '')"),
    ),
}
"""Evaluations of a text or a constant, for functions that numbers have as well."""

_CASES: Final = (
    Function(
        name="upper",
        form="upper",
        own=own(duckdb="upper ucase", trino="upper"),
        evaluations=(_text("upper({0})", compared=everywhere("upper(s)")),),
        preimages=(
            Preimage(
                rule=texts.raised,
                domain="text, compared with ASCII",
                operators="=, <>, IN",
                compared=everywhere("upper(x)"),
            ),
        ),
        in_spark="upper({0})",
    ),
    Function(
        name="lower",
        form="lower",
        own=own(duckdb="lower lcase", trino="lower"),
        evaluations=(_text("lower({0})", compared=everywhere("lower(s)")),),
        preimages=(
            Preimage(
                rule=texts.lowered,
                domain="text, compared with ASCII",
                operators="=, <>, IN",
                compared=everywhere("lower(x)"),
            ),
        ),
        in_spark="lower({0})",
    ),
)

_PARTS: Final = (
    Function(
        name="length",
        form="length",
        own=own(duckdb="len", trino="length"),
        evaluations=(_text("length({0})", result=BIGINT, compared=everywhere("length(s)")),),
        in_spark="length({0})",
    ),
    Function(
        name="substring",
        form="left",
        called=(
            "substring",
            "substr",
        ),
        own=own(duckdb="left", trino="substring substr"),
        shape=shapes.substring,
        evaluations=(
            replace(
                _text(
                    "substring({0}, {1}, {2})",
                    is_count,
                    is_count,
                    values="ASCII; constants from 1 on",
                    compared=spelled(
                        duckdb="substring(s, 2, 3), left(s, 3)",
                        spark="substring(s, 2, 3), left(s, 3)",
                        trino="substring(s, 2, 3)",
                    ),
                ),
                rises=rising.beginning,
                in_order="from the first character",
            ),
        ),
        preimages=(
            Preimage(
                title="left",
                rule=texts.beginning,
                domain="text",
                compared={
                    DUCKDB: "left(x, 3), substr(x, 1, 3)",
                    SPARK: "left(x, 3), substr(x, 1, 3)",
                    TRINO: "substr(x, 1, 3)",
                },
            ),
        ),
        in_spark="substring({0}, {1}, {2})",
    ),
    Function(
        name="join",
        form="join",
        called=("concat",),
        own=own(duckdb="||", trino="concat"),
        shape=shapes.joined,
        evaluations=(
            Evaluation(
                accepts=(is_any_text, is_any_text),
                result=VARCHAR,
                sql="({0} || {1})",
                domain=ANYWHERE,
                values="text",
                compared=everywhere("a || b"),
                changed=_CHANGED,
            ),
        ),
        in_spark="({0} || {1})",
    ),
)

_SHAPED: Final = (
    *(
        Function(
            name=name,
            called=(name,),
            own=own(trino=name),
            evaluations=(
                _text(f"{name}({{0}})", domain=PRINTABLE, values=_PLAIN, compared=everywhere(f"{name}(s)")),
            ),
            in_spark=f"{name}({{0}})",
        )
        for name in ("trim", "ltrim", "rtrim", "reverse")
    ),
    Function(
        name="replace",
        called=("replace",),
        own=own(trino="replace"),
        evaluations=(
            _text(
                "replace({0}, {1}, {2})",
                is_full_text,
                is_constant_text,
                domain=ANYWHERE,
                values="text; what is replaced is not empty",
                compared=everywhere("replace(s, 'a', 'b')"),
            ),
        ),
        in_spark="replace({0}, {1}, {2})",
    ),
    Function(
        name="translate",
        called=("translate",),
        own=own(trino="translate"),
        evaluations=(
            _text(
                "translate({0}, {1}, {2})",
                is_set_of_letters,
                is_constant_text,
                values="ASCII; no letter is replaced twice",
                compared=everywhere("translate(s, 'ab', 'cd')"),
            ),
        ),
        in_spark="translate({0}, {1}, {2})",
    ),
    Function(
        name="split_part",
        called=("split_part",),
        own=own(trino="split_part"),
        evaluations=(
            _text(
                "split_part({0}, {1}, {2})",
                is_full_text,
                is_count,
                domain=f"{ASCII} AND len(string_split({{0}}, {{1}})) >= {{2}}",
                values="ASCII with as many parts",
                compared=everywhere("split_part(s, ',', 2)"),
            ),
        ),
        in_spark="split_part({0}, {1}, {2})",
    ),
    Function(
        name="right",
        called=("right",),
        evaluations=(
            _text(
                "right({0}, {1})",
                is_count,
                values=_PADDED,
                compared=spelled(duckdb="right(s, 3)", spark="right(s, 3)"),
            ),
        ),
        in_spark="right({0}, {1})",
    ),
    *(
        Function(
            name=name,
            called=(name,),
            own=own(trino=name),
            evaluations=(
                _text(
                    f"{name}({{0}}, {{1}}, {{2}})",
                    is_count,
                    is_full_text,
                    values=_PADDED,
                    compared=everywhere(f"{name}(s, 9, '0')"),
                ),
            ),
            in_spark=f"{name}({{0}}, {{1}}, {{2}})",
        )
        for name in ("lpad", "rpad")
    ),
    Function(
        name="repeat",
        called=("repeat",),
        evaluations=(
            _text(
                "repeat({0}, {1})",
                is_count,
                domain="strlen({0}) * {1} < 100000",
                values="text; a count from 1 on, results below 100,000 bytes",
                compared=spelled(duckdb="repeat(s, 3)", spark="repeat(s, 3)"),
            ),
        ),
        in_spark="repeat({0}, {1})",
    ),
)

_DIGESTS: Final = (
    Function(
        name="md5",
        called=("md5",),
        evaluations=(
            _text(
                "md5({0})",
                domain=ANYWHERE,
                values="text",
                compared=spelled(duckdb="md5(s)", spark="md5(s)", trino="lower(to_hex(md5(to_utf8(s))))"),
            ),
        ),
        in_spark="md5({0})",
    ),
    Function(
        name="sha256",
        called=("sha256", "sha2"),
        shape=shapes.sha256,
        evaluations=(
            _text(
                "sha256({0})",
                domain=ANYWHERE,
                values="text",
                compared=spelled(
                    duckdb="sha256(s)", spark="sha2(s, 256)", trino="lower(to_hex(sha256(to_utf8(s))))"
                ),
            ),
        ),
        in_spark="sha2({0}, 256)",
    ),
    Function(
        name="hex",
        own=own(duckdb="hex", spark="hex"),
        evaluations=(
            _text(
                "hex({0})",
                domain=ANYWHERE,
                values="text",
                compared=spelled(duckdb="hex(s)", spark="hex(s)", trino="to_hex(to_utf8(s))"),
            ),
        ),
        in_spark="hex({0})",
    ),
)

_COUNTED: Final = (
    Function(
        name="position",
        called=(
            "str_position",
            "strpos",
            "instr",
        ),
        own=own(trino="strpos"),
        evaluations=(
            _text(
                "instr({0}, {1})",
                is_full_text,
                result=BIGINT,
                compared=spelled(duckdb="instr(s, 'a')", spark="instr(s, 'a')", trino="strpos(s, 'a')"),
            ),
        ),
        in_spark="instr({0}, {1})",
    ),
    Function(
        name="ascii",
        called=("ascii",),
        evaluations=(
            _text("ascii({0})", result=BIGINT, compared=spelled(duckdb="ascii(s)", spark="ascii(s)")),
        ),
        in_spark="ascii({0})",
    ),
    Function(
        name="bytes",
        own=own(duckdb="strlen", spark="octet_length"),
        evaluations=(
            _text(
                "strlen({0})",
                result=BIGINT,
                domain=ANYWHERE,
                values="text",
                compared=spelled(duckdb="strlen(s)", spark="octet_length(s)", trino="length(to_utf8(s))"),
            ),
        ),
        in_spark="octet_length({0})",
    ),
    Function(
        name="bits",
        called=("bit_length",),
        evaluations=(
            _text(
                "bit_length({0})",
                result=BIGINT,
                domain=ANYWHERE,
                values="text",
                compared=spelled(duckdb="bit_length(s)", spark="bit_length(s)"),
            ),
        ),
        in_spark="bit_length({0})",
    ),
    Function(
        name="levenshtein",
        called=(
            "levenshtein",
            "levenshtein_distance",
        ),
        own=own(trino="levenshtein_distance"),
        evaluations=(
            _text(
                "levenshtein({0}, {1})",
                is_any_text,
                result=BIGINT,
                domain=f"{ASCII} AND strlen({{1}}) = length({{1}})",
                compared=spelled(
                    duckdb="levenshtein(a, b)", spark="levenshtein(a, b)", trino="levenshtein_distance(a, b)"
                ),
            ),
        ),
        in_spark="levenshtein({0}, {1})",
    ),
)

_JSON: Final = (
    # TRY: DuckDB may evaluate a part before it knows whether it is needed.
    r"CASE WHEN {0} IS NULL THEN true"
    r" WHEN NOT json_valid({0}) OR strlen({0}) > 50000 OR contains({0}, '\') THEN false"
    r" WHEN TRY(json_type({0})) <> 'OBJECT' OR len(list_filter(TRY(json_keys({0})), lambda k: k = {1})) > 1 THEN false"
    # Only DuckDB accepts these as JSON.
    r" WHEN regexp_matches({0}, ',\s*[}}\]]|[:\[,]\s*[-+]?(?i:nan|inf)') THEN false"
    # Readers stop at some depth, and rewrite some numbers.
    r" WHEN strlen({0}) - strlen(replace(replace({0}, '[', ''), '{{', '')) > 200 THEN false"
    r" WHEN regexp_matches({0}, '[0-9]{{200}}|:\s*-0[\s,}}]') THEN false"
    r" WHEN TRY(json_type({0}, '$.' || {1})) IN ('UBIGINT', 'BIGINT')"
    r" THEN regexp_full_match(TRY({0} ->> {1}), '-?[0-9]{{1,18}}')"
    r" ELSE coalesce(TRY(json_type({0}, '$.' || {1})), 'NULL') IN ('NULL', 'VARCHAR', 'BOOLEAN') END"
)

_READ: Final = (
    Function(
        name="integer",
        casts=(Cast(is_string, pa.types.is_int64),),
        evaluations=(
            _text(
                "({0}::BIGINT)",
                result=BIGINT,
                domain="regexp_full_match({0}, '0|-?[1-9][0-9]{{0,17}}')",
                values="text of digits, without zeros or signs that are not needed",
                compared=spelled(duckdb="s::BIGINT", spark="bigint(s)", trino="CAST(s AS bigint)"),
            ),
        ),
        in_spark="try_cast({0} AS BIGINT)",
    ),
    Function(
        name="date of text",
        casts=(Cast(is_string, pa.types.is_date),),
        evaluations=(
            replace(
                _text(
                    "TRY_CAST({0} AS DATE)",
                    result=DATE,
                    domain="coalesce(regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}')"
                    " AND TRY_CAST({0} AS DATE) BETWEEN DATE '1900-01-01' AND DATE '9999-12-31', {0} IS NULL)",
                    values="text of a date of the years 1900 to 9999, as 2024-05-01",
                    compared=spelled(duckdb="s::DATE", spark="CAST(s AS DATE)", trino="CAST(s AS date)"),
                ),
                template="{0}::DATE",
            ),
        ),
        in_spark="try_cast({0} AS DATE)",
    ),
    Function(
        name="json field",
        own=own(
            duckdb="json_extract_string json_extract_path_text ->>",
            spark="get_json_object",
            trino="json_extract_scalar",
        ),
        shape=shapes.json_field,
        evaluations=(
            _text(
                "({0} ->> {1})",
                is_field_name,
                domain=_JSON,
                values="text of one JSON object without backslashes; the field is there once at most, and is a text, "
                "an integer up to 18 digits, a truth value or null",
                compared=spelled(
                    duckdb="s ->> '$.a'",
                    spark="get_json_object(s, '$.a')",
                    trino="json_extract_scalar(s, '$.a')",
                ),
            ),
        ),
    ),
)

TEXT_ROWS: Final = (*_CASES, *_PARTS, *_SHAPED, *_DIGESTS, *_COUNTED, *_READ)
