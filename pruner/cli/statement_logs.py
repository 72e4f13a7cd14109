"""The queries in a statement log, in the formats that engines write.

For Spark's event log, these are the filters that were given to each scan of a statement: the log contains no SQL. Texts
in the filters are unquoted, so that one with a comma or a bracket may be misread. That is good enough for advice, and
nothing else uses it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from pruner.expr.engines import SqlEngine

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_STARTED = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_PLACE = re.compile(r"\[(?:file:)?([^\],]+)")
_CALL = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_OPERATORS = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_QUOTED = {"string": "", "date": "DATE ", "timestamp": "TIMESTAMP ", "timestamp_ntz": "TIMESTAMP_NTZ "}
"""The prefix of literals of the types whose values are quoted."""


def is_spark_event(record: Mapping[str, Any]) -> bool:
    """Tell whether a record is from Spark's event log."""
    return str(record.get("Event", "")).startswith(("SparkListener", "org.apache.spark."))


def predicates_of(event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The location of each table that a statement scans with filters, and the filters as a predicate in Spark's SQL."""
    if event["Event"] != _STARTED:
        return
    for metadata in _scans(event["sparkPlanInfo"]):
        place = _PLACE.search(metadata.get("Location", ""))
        types = _types(metadata.get("ReadSchema", ""))
        pushed = _split(metadata.get("PushedFilters", "[]")[1:-1])
        clauses = [
            clause
            for condition in pushed
            if (clause := _clause(condition, types)) and "IS NOT NULL" not in clause
        ]
        if place is not None and clauses:
            yield place[1], " AND ".join(clauses)


def _scans(node: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    if "PushedFilters" in node["metadata"]:
        yield node["metadata"]
    for child in node["children"]:
        yield from _scans(child)


def _types(schema: str) -> dict[str, str]:
    """The columns of `struct<name:type,…>`."""
    named = (part.partition(":") for part in _split(schema.removeprefix("struct<").removesuffix(">")))
    return {name: type_ for name, _, type_ in named}


def _split(text: str) -> list[str]:
    """The parts between commas that are outside brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _clause(filter_: str, types: Mapping[str, str]) -> str | None:
    """One filter in SQL; None for an unknown form."""
    call = _CALL.fullmatch(filter_)
    if call is None:
        return None
    function, inner = call.groups()
    if function in ("And", "Or", "Not"):
        return _combined(function, [_clause(part, types) for part in _split(inner)])
    column, _, value = inner.partition(",")
    literal = _literal_of(types.get(column, ""))
    name = "`" + column.replace("`", "``") + "`"
    match function:
        case "IsNull":
            return f"{name} IS NULL"
        case "IsNotNull":
            return f"{name} IS NOT NULL"
        case "In":
            return f"{name} IN ({', '.join(map(literal, _split(value.strip()[1:-1])))})"
        case "StringStartsWith":
            return f"{name} LIKE {literal(value + '%')}"
        case _ if function in _OPERATORS:
            return f"{name} {_OPERATORS[function]} {literal(value)}"
        case _:
            return None


def _combined(function: str, parts: list[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return known[0] if function == "And" and known else None
    return f"NOT ({known[0]})" if function == "Not" else f"({f' {function.upper()} '.join(known)})"


def _literal_of(type_: str) -> Callable[[str], str]:
    if type_ not in _QUOTED:
        return str.strip
    return lambda value: f"{_QUOTED[type_]}'" + value.replace("'", "''") + "'"


_READS_FILES = re.compile(
    r"(?:read_parquet|parquet_scan)\s*\(\s*'([^']+)'[^()]*\)|(?<=\bfrom)\s+'([^']+)'|(?<=\bjoin)\s+'([^']+)'",
    re.IGNORECASE,
)
"""The ways in which DuckDB reads files by name."""


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """One query in a log: a statement or, if `place` is set, a predicate over the table at that location, in Spark's
    SQL or, with `is_expression`, in the expression form.

    `times` is how often it was asked. `unjudged` says why it cannot be planned, if it has no constants.
    """

    text: str
    place: str | None = None
    is_expression: bool = False
    times: int = field(default=1, compare=False)
    unjudged: str | None = None


def asked_in(log: str) -> Iterator[LoggedQuery]:
    """The queries in a log.

    It may have one statement per line; one JSON object per line, with the statement as `query` (and, from
    `pruner_duckdb.record`, literals for its parameters) or (Trino's event listeners) as `metadata.query`; a profile of
    DuckDB; an event log of Spark; or the scans that clients requested from the service's catalog (`GET /v1/asked`).
    """
    profile = _object(log)
    if profile is not None and "place" not in profile:
        yield from _statement(profile)
        return
    for line in log.splitlines():
        record = _object(line)
        if record is None:
            text = line.strip()
            if text and not text.startswith("--"):
                yield LoggedQuery(text)
        elif is_spark_event(record):
            yield from (LoggedQuery(predicate, place) for place, predicate in predicates_of(record))
        elif "place" in record and "times" in record:
            yield _asked_of_catalog(record)
        else:
            yield from _statement(record)


def _asked_of_catalog(record: Mapping[str, Any]) -> LoggedQuery:
    """A line of the scans that clients requested from the service's catalog."""
    place, times, expression = str(record["place"]), int(record["times"]), record.get("expression")
    if expression is not None:
        return LoggedQuery(json.dumps(expression), place, is_expression=True, times=times)
    columns = ", ".join(map(str, record.get("columns", ())))
    read = f"{record.get('files_read')} of {record.get('files')} files read in {times} scans"
    return LoggedQuery(
        columns, place, times=times, unjudged=f"a client did not say with which constants: {columns}; {read}"
    )


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _statement(record: Mapping[str, Any]) -> Iterator[LoggedQuery]:
    """The statement of a record: `query` of ours and Trino's, `query.sql` and `query_name` of DuckDB's profiles."""
    inner = record.get("query") or record.get("query_name") or record.get("metadata")
    if isinstance(inner, str):
        yield LoggedQuery(_with_values(inner, record.get("parameters")))
    elif isinstance(inner, dict):
        told = cast("dict[str, Any]", inner)
        yield from _statement({"query": told.get("sql") or told.get("query")})


def _with_values(statement: str, parameters: object) -> str:
    """A statement with literals instead of its parameters; unchanged if they do not fit."""
    match parameters:
        case dict():
            values = cast("dict[str, Any]", parameters)
        case list():
            values = {str(place + 1): value for place, value in enumerate(cast("list[Any]", parameters))}
        case _:
            return statement
    if not values or not all(isinstance(value, str) for value in values.values()):
        return statement
    import sqlglot  # slow, and --help does not need it
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(statement, read=SqlEngine.DUCKDB.value)
        places = _parameters(tokens)
        parts, end = list[str](), 0
        for start, stop, name in places:
            parts += [statement[end:start], values[name]]
            end = stop
        return "".join([*parts, statement[end:]])
    except (SqlglotError, KeyError):
        return statement


def _parameters(tokens: Sequence[Token]) -> list[tuple[int, int, str]]:
    """Where the parameters of a statement begin and end, and their names: `?` by its position, `$1`, `$name`."""
    from sqlglot.tokenizer_core import TokenType

    found: list[tuple[int, int, str]] = []
    for number, token in enumerate(tokens):
        if token.token_type is TokenType.PLACEHOLDER:
            found.append((token.start, token.end + 1, str(len(found) + 1)))
        elif token.token_type is TokenType.PARAMETER and number + 1 < len(tokens):
            found.append((token.start, tokens[number + 1].end + 1, tokens[number + 1].text))
    return found


def with_name(statement: str, root: str, name: str) -> str:
    """A statement that reads a table by its bare name instead of a qualified name, or a path or glob of its files."""

    def named(match: re.Match[str]) -> str:
        path = next(group for group in match.groups() if group)
        return f' "{name}"' if _folder(path) == root else match[0]

    bare = re.escape(name)
    qualified = re.compile(rf'(?:(?:"[^"]+"|\b[A-Za-z_]\w*)\.){{1,2}}(?:"{bare}"|{bare}\b)', re.IGNORECASE)
    return qualified.sub(lambda _: f'"{name}"', _READS_FILES.sub(named, statement))


def _folder(path: str) -> str:
    """The folder of a glob, or of the files in it."""
    from pathlib import Path

    fixed = re.split(r"[*?\[]", path, maxsplit=1)[0]
    if fixed != path or path.endswith(".parquet"):
        fixed = fixed.rpartition("/")[0]
    return fixed.rstrip("/") if "://" in fixed else str(Path(fixed).absolute())
