"""Predicate text to the common expression form, in the dialects of `pruner.expr.text.dialects`.

Conjunctions of plain comparisons are read without the SQL parser, which takes longer to load than a plan takes, and a
third of the time of a plan over 100,000 files. Statements of one shape repeat with other constants; for such a text the
parser's answer is known except for the constants. Where no word is a keyword, it is known from the start.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pruner.errors import SchemaError
from pruner.expr.nodes import And, Column, Compare, Expr, Literal, Operator, conjunction
from pruner.expr.text.literals import STRING, TEXT_IN_SINGLE_QUOTES, in_one_type, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.expr.engines import Traits
    from pruner.expr.semantics import Semantics

_REMEMBERED_CHARACTERS = 4096
_QUOTED_NAME = re.compile(r'"([^"]+)"')

Shape: TypeAlias = "tuple[tuple[str, ...], ...]"
"""The words and operators of each comparison, and the kinds of its constants."""

_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
# No quotes, escapes or control characters, only ASCII; and integers that fit in 64 bits, with nothing after them.
_CONSTANT = r"(?:'[ !#-&(-\[\]-~]*'|[0-9]{1,18}(?![0-9A-Za-z_.]))"
_COMPARISON = (
    rf"({_WORD})\s*(?:(=|<>|!=|<=|>=|<|>)\s*({_CONSTANT})|\s[Bb][Ee][Tt][Ww][Ee][Ee][Nn]\s+({_CONSTANT})"
    rf"\s+[Aa][Nn][Dd]\s+({_CONSTANT}))"
)
_ONE: Final = re.compile(_COMPARISON, re.ASCII)
_NEXT: Final = re.compile(r"\s+[Aa][Nn][Dd]\s+", re.ASCII)
_OPERATORS: Final = {
    "=": Operator.EQ,
    "<>": Operator.NE,
    "!=": Operator.NE,
    "<": Operator.LT,
    "<=": Operator.LE,
    ">": Operator.GT,
    ">=": Operator.GE,
}
_SHAPES: Final = 1024


class Plain(NamedTuple):
    """A text that is a conjunction of plain comparisons, provided that its words are column names."""

    shape: Shape
    expression: Expr


class PlainTexts:
    """Caches for which shapes of text the parser agrees with the reading here. Threads may share it."""

    def __init__(self) -> None:
        self._understood: dict[tuple[Semantics, Shape], bool] = {}

    def parse(self, text: str, semantics: Semantics, parse: Callable[[], Expr]) -> Expr:
        """Parse a text by `parse`, or without it where that agreed on another text of the same shape.

        Raises:
            PredicateError: as `parse` does.
        """
        plain = read_plain(text, semantics.traits)
        if plain is None:
            return parse()
        # The time of a statement makes no difference here, but would make each one a separate shape.
        about = (
            semantics if semantics.now is None else replace(semantics, now=None, latest=None),
            plain.shape,
        )
        understood = self._understood.get(about)
        if understood:
            return plain.expression
        parsed = parse()
        if understood is None:
            if len(self._understood) >= _SHAPES:
                self._understood = {}  # shapes that recur are soon cached again
            self._understood[about] = parsed == plain.expression
        return parsed


_plain_texts = PlainTexts()


def parse_predicate(text: str, semantics: Semantics) -> Expr:
    """Parse one boolean SQL expression in the dialect of the engine.

    Time is linear in the length of the text: about 0.15 ms for two comparisons, 10 microseconds for each
    further one, and 1 microsecond per value for IN lists of plain constants.

    Raises:
        PredicateError: the text is not one (with line, column and the token at fault), has a subquery or a
            parameter, or exceeds the limits in `pruner.limits`.

    """
    if len(text) <= _REMEMBERED_CHARACTERS:
        return _remembered(text, semantics)
    return _parse(text, semantics)


@lru_cache(maxsize=512)
def _remembered(text: str, semantics: Semantics) -> Expr:
    plain = None if semantics.traits.dialect is None else read_plain(text, semantics.traits)
    if plain is not None and is_certain(plain):
        return plain.expression
    return _plain_texts.parse(text, semantics, lambda: _parse(text, semantics))


def with_hint(error: SchemaError, text: str) -> SchemaError:
    """The error for a column that does not exist, with a hint where it is in double quotes."""
    missing = any(f"no column {name!r}:" in str(error) for name in _QUOTED_NAME.findall(text))
    return SchemaError(f"{error}; {TEXT_IN_SINGLE_QUOTES}") if missing else error


def _parse(text: str, semantics: Semantics) -> Expr:
    """Parse a condition of any form with the SQL parser."""
    # Imported here, so that plain comparisons do not load it.
    from pruner.expr.text.dialects import dialect_of, parse_condition
    from pruner.expr.text.literals import plain_list
    from pruner.expr.text.scan import scan
    from pruner.expr.text.translate import Translator

    dialect = dialect_of(semantics)
    scanned = scan(text, dialect.tokens)
    lists = {taken.name: plain_list(taken.body, semantics) for taken in scanned.lists}
    known = {name: literals for name, literals in lists.items() if literals is not None}
    if len(known) == len(lists):
        condition = parse_condition(scanned, dialect)
        translator = Translator(semantics, known)
        expression = translator.predicate(condition)
        # Each name occurs once in the text; one that is not an IN list there was in a string or comment after all.
        if translator.lists_used == len(lists):
            return expression
    # One of the lists has more than plain constants, or does not belong to IN: the parser gets the lists as well.
    return Translator(semantics, {}).predicate(parse_condition(scanned.whole(), dialect))


def is_certain(plain: Plain) -> bool:
    """Tell whether the parser is sure to agree with this reading in every dialect: no word is a keyword."""
    return all(word.upper() not in KEYWORDS for word, *_ in plain.shape)


def read_plain(text: str, traits: Traits) -> Plain | None:
    """Read a text as a conjunction of plain comparisons; None where it is something else."""
    text = text.strip(" ")
    shape: list[tuple[str, ...]] = []
    parts: list[Expr] = []
    at = 0
    while True:
        match = _ONE.match(text, at)
        if match is None:
            return None
        word, sign, *constants = match.groups()
        literals = tuple([_literal(constant, traits) for constant in constants if constant is not None])
        part = _compared(Column((word,)), sign, literals)
        if part is None:
            return None
        shape.append((word, sign or "BETWEEN", *(str(literal.type) for literal in literals)))
        parts.append(part)
        if match.end() == len(text):
            return Plain(tuple(shape), parts[0] if len(parts) == 1 else conjunction(tuple(parts)))
        following = _NEXT.match(text, match.end())
        if following is None:
            return None
        at = following.end()


def _compared(column: Column, sign: str | None, literals: tuple[Literal, ...]) -> Expr | None:
    if sign is not None:
        return Compare(_OPERATORS[sign], column, literals[0])
    both = in_one_type(literals)
    if both is None:
        return None
    return And((Compare(Operator.GE, column, both[0]), Compare(Operator.LE, column, both[1])))


def _literal(text: str, traits: Traits) -> Literal:
    if text[0] == "'":
        return Literal(text[1:-1], STRING)
    literal = number(text, traits)
    assert literal is not None, "so few digits are never too many"
    return literal


# Words that may be more than a column name in some engine's SQL: the keywords of the SQL parser's dialects, and other
# words to which it gives a special meaning. A test derives them from the parser, which reads any other word before a
# comparison operator as a name.
_WORDS: Final = """
ADD ALL ALTER ANALYZE AND ANTI ANY APPLY ARCHIVE ARCHIVES ARRAY AS ASC ASOF ATTACH AUTOINCREMENT AUTO_INCREMENT BEGIN
BETWEEN BIGDECIMAL BIGINT BIGNUM BIGNUMERIC BINARY BIT BITSTRING BLOB BOOL BOOLEAN BPCHAR BY BYTE BYTEA CACHE CALL
CASE CHAR CHARACTER CLOB CLUSTER COLLATE COLUMN COMMENT COMMIT CONNECT CONNECT_BY_ROOT CONSTRAINT COPY CREATE CROSS
CUBE CURRENT_CATALOG CURRENT_DATE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATABASE DATE
DATEMULTIRANGE DATERANGE DATETIME DEALLOCATE DEC DECFLOAT DECIMAL DECIMAL128 DECIMAL256 DECIMAL32 DECIMAL64 DECLARE
DEFAULT DELETE DESC DESCRIBE DETACH DISCONNECT DISTINCT DISTRIBUTE DIV DOUBLE DROP ELSE END ENUM ESCAPE EXCEPT EXECUTE
EXISTS EXPLAIN FALSE FETCH FILE FILES FILTER FIRST FIXED FLOAT FLOAT4 FLOAT8 FOR FORCE FOREIGN FORMAT FROM FULL
FUNCTION GEOGRAPHY GEOMETRY GLOB GRANT GROUP GROUPING HAVING HUGEINT HYPERLOGLOG IF ILIKE IN INDEX INET INNER INPUT
INSERT INSTALL INT INT1 INT128 INT16 INT2 INT256 INT32 INT4 INT4MULTIRANGE INT4RANGE INT64 INT8 INT8MULTIRANGE
INT8RANGE INTEGER INTERSECT INTERVAL INTO IPADDRESS IPPREFIX IS ISNULL JAR JARS JOIN JSON JSONB KEEP KEY KILL LATERAL
LEFT LIKE LIMIT LIST LOAD LOCALTIME LOCALTIMESTAMP LOCK LOGICAL LONG LONGBLOB LONGTEXT LONGVARCHAR MACRO MAP
MATCH_RECOGNIZE MEDIUMBLOB MEDIUMINT MEDIUMTEXT MERGE MINUS MSCK NAMESPACE NATURAL NCHAR NEXT NOT NOTNULL NULL
NULLABLE NUMBER NUMERIC NUMMULTIRANGE NUMRANGE NVARCHAR NVARCHAR2 OBJECT OFFSET ON ONLY OPERATOR OPTIMIZE OR ORDER
ORDINALITY OUT OUTER OUTPUT OVER OVERLAPS OVERWRITE PARTITION PARTITIONED PARTITIONED_BY PERCENT PIVOT PIVOT_WIDER
POSITIONAL PRAGMA PRECISION PREPARE PRIMARY PROCEDURE QUALIFY RANGE REAL RECURSIVE REF REFERENCES REFRESH REGEXP
RENAME REPAIR REPLACE RESET RETURNING REVOKE RIGHT RLIKE ROLLBACK ROLLUP ROW ROWS SCHEMA SECURITY SELECT SEMI SEQUENCE
SERDEPROPERTIES SESSION SESSION_USER SET SETS SETTINGS SHORT SHOW SIGNED SIMILAR SMALLINT SOME SORT SQL START STR
STRAIGHT_JOIN STRING STRUCT SUMMARIZE TABLE TABLESAMPLE TDIGEST TEMP TEMPORARY TEXT THEN TIME TIMESTAMP TIMESTAMPLTZ
TIMESTAMPNTZ TIMESTAMPTZ TIMESTAMP_LTZ TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_NTZ TIMESTAMP_S TIMESTAMP_US TIMETZ TIME_NS
TINYBLOB TINYINT TINYTEXT TO TRIGGER TRUE TRUNCATE TSMULTIRANGE TSRANGE TSTZMULTIRANGE TSTZRANGE UBIGINT UHUGEINT UINT
UINT128 UINT256 UINTEGER UNCACHE UNION UNIQUE UNKNOWN UNNEST UNPIVOT UPDATE USE USING USMALLINT UTINYINT UUID VACUUM
VALUES VARBINARY VARCHAR VARCHAR2 VARIANT VARYING VECTOR VIEW VOLATILE WHEN WHERE WINDOW WITH XOR
"""

KEYWORDS: Final = frozenset(_WORDS.split())
