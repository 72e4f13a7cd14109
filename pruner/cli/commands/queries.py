"""`pruner query`: a SELECT in DuckDB that reads only the files which its predicates leave."""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.options import (
    IndexUriOption,
    NamedTables,
    RowsFormat,
    StorageOption,
    catalog,
    given_text,
    pairs,
)
from pruner.cli.output import (
    only_select,
    print_columns,
    print_json,
    printable,
    with_spelled_intervals,
    write_csv,
    write_line,
    write_parquet,
)
from pruner.errors import PredicateError, PrunerError
from pruner.showing.words import counted, data_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pruner.adapters import QueryAdapter, QueryConnection, ScanRecord
    from pruner.catalog.names import Catalog
    from pruner.schema import Field
    from pruner.table import Table

FETCHED_ROWS = 10_000
"""Rows that are fetched and printed at a time."""

_MOST_COLUMNS = 1 << 20

_RUN = compile("__connection.execute(__statement)", "<query>", "eval")
"""Run where no variable of this program is seen: DuckDB reads data frames from those of its caller."""

_QUESTIONS = frozenset(["SELECT", "EXPLAIN", "MULTI", "SET"])
"""Kinds of statements, as DuckDB names them, that change no data; a PIVOT is several."""

_ANSWERED = frozenset(["SELECT", "EXPLAIN", "MULTI"])
"""Those that come with rows."""

_EXPLANATION = ["explain_key", "explain_value"]
"""Columns of EXPLAIN: each value is a drawing of many lines."""

MISSING_TABLE = re.compile(
    r"Table with name \"?(?P<name>[^\"\n]+?)\"? does not exist!(?:\nDid you mean \"(?P<near>.*)\")?"
)

_MISSING_COLUMN = re.compile(
    r"Binder Error: .*(?:column \"[^\"\n]+\" not found|does not have a column named)"
)

_BY_PLACE = re.compile(r"\b(?:from|join)\s+(?:read_parquet\s*\(\s*)?'([^']*)'", re.IGNORECASE)
"""A place that DuckDB reads by itself: a file or a glob."""

_PRAGMA = re.compile(r"\s*pragma\b", re.IGNORECASE)

_EXPLAINED = re.compile(r"\s*explain\s+(?:analyze\s+)?(?:\([^()]*\)\s*)?", re.IGNORECASE)

_ERROR_LINE = re.compile(r"^LINE (\d+): ", re.MULTILINE)

QueryArgument = Annotated[
    str,
    typer.Argument(
        metavar="SELECT", help="A query in DuckDB's SQL; @FILE reads it from a file, - from standard input."
    ),
]


AnswerOption = Annotated[
    RowsFormat, typer.Option("--output", help="text for people; json, csv or parquet for programs.")
]


def query(
    select: QueryArgument,
    table: NamedTables = None,
    index_uri: IndexUriOption = None,
    option: StorageOption = None,
    output: AnswerOption = RowsFormat.TEXT,
) -> None:
    """Run a query in DuckDB, pruned."""
    select = given_text(select, "query", "SELECT")
    if not select.strip(" \t\r\n;"):
        raise PredicateError("the query is empty: write a SELECT")
    adapter = duckdb_adapter()
    tables = catalog(pairs(table, "--table"), index_uri, option)
    known = {name: tables.open(name) for name in mentioned(tables, select)}
    try:
        connection = adapter.connect(known, config={})
        _require_questions(connection, select)
        # A table whose alias the query may name as well is one table.
        opened = {tables.own_name(name): table for name, table in known.items()}.values()
        spelled = None if output is RowsFormat.PARQUET else _run_spelled(connection, select)
        if spelled is not None:
            failed, columns = spelled
        else:
            looked_up = tuple(connection.last_plans)
            failed = (*looked_up, *_run(connection, select, opened))
            columns = [(entry[0], str(entry[1])) for entry in connection.description or ()]
        if output is RowsFormat.JSON:
            rows = list(_rows(connection))
            print_json(_answer(columns, rows, _without(failed, connection.last_plans)))
            return
        _write_rows(connection, output, columns)
        scans = _without(failed, connection.last_plans)
        _report_scans(scans)
        by_place = None if scans else _BY_PLACE.search(select)
        if by_place is not None:
            sys.stderr.write(
                printable(f"{by_place[1]}: not pruned: name the table by --table NAME=URI") + "\n"
            )
    except Exception as error:
        refused = _refused_by_duckdb(error, tables.names(aliases=True))
        if refused is None:
            raise
        raise refused from error


def _run(connection: QueryConnection, select: str, tables: Iterable[Table]) -> tuple[ScanRecord, ...]:
    """Run a query; where DuckDB misses a column, the names of indexes are taken for their expressions.

    Returns:
        the scans of the attempt that missed the column: they read nothing.
    """
    from pruner.expr.derived.in_sql import with_expressions  # slow, and --help does without

    try:
        eval(_RUN, {"__connection": connection, "__statement": select})
        return ()
    except Exception as error:
        written = with_expressions(select, _indexes(tables)) if _MISSING_COLUMN.search(str(error)) else select
        if written == select:
            raise
        failed = tuple(connection.last_plans)
        eval(_RUN, {"__connection": connection, "__statement": written})
        return failed


def _run_spelled(
    connection: QueryConnection, select: str
) -> tuple[tuple[ScanRecord, ...], list[tuple[str, str]]] | None:
    """Run a query whose result has intervals so that it gives them as DuckDB writes them.

    Returns:
        the scans of looking at its columns, and the columns; None for another query, or one that fails, which is to
        run as it was written.
    """
    one = only_select(connection, select)
    if one is None:
        return None
    try:
        eval(_RUN, {"__connection": connection, "__statement": f"DESCRIBE {one}"})
        columns = [(str(row[0]), str(row[1])) for row in connection.fetchmany(_MOST_COLUMNS)]
        looked_up = tuple(connection.last_plans)
        spelled = with_spelled_intervals(one, [kind for _, kind in columns])
        if spelled is None:
            return None
        eval(_RUN, {"__connection": connection, "__statement": spelled})
    except Exception:  # met again, and told about the query as it was written
        return None
    return looked_up, columns


def _without(left_out: Iterable[ScanRecord], scans: Iterable[ScanRecord]) -> list[ScanRecord]:
    known = {id(scan) for scan in left_out}
    return [scan for scan in scans if id(scan) not in known]


def _indexes(tables: Iterable[Table]) -> dict[str, Field]:
    """The indexes over expressions that one of the tables alone has by their name."""
    from pruner.maintenance.expressions import fields_by_name  # slow, too

    named = [indexed for table in tables for indexed in fields_by_name(table.indexes(), table.schema)]
    times = Counter(name for name, _ in named)
    return {name: field for name, field in named if times[name] == 1}


def _write_rows(connection: QueryConnection, output: RowsFormat, columns: list[tuple[str, str]]) -> None:
    names = [name for name, _ in columns]
    match output:
        case RowsFormat.CSV:
            write_csv(names, _rows(connection))
        case RowsFormat.PARQUET:
            write_parquet(connection, [type_name == "UUID" for _, type_name in columns])
        case _ if names == _EXPLANATION:
            _print_explanation(_rows(connection))
        case _:
            print_columns(names, _rows(connection))


def _require_questions(connection: Any, text: str) -> None:
    """Refuse statements that change anything.

    Raises:
        PredicateError: there is one.
    """
    statements = connection.extract_statements(text)
    answers = sum(statement.type.name in _ANSWERED for statement in statements)
    if answers > 1:
        raise PredicateError(f"the text has {answers} queries: run them one by one")
    for statement in statements:
        kind = statement.type.name
        # Some statements that copy databases count as pragmas.
        if kind not in _QUESTIONS and not (kind == "PRAGMA" and _PRAGMA.match(statement.query)):
            what = kind.replace("_", " ")
            raise PredicateError(f"a query must not change anything, so {what} is refused: write a SELECT")
        inside = _EXPLAINED.match(statement.query) if kind == "EXPLAIN" else None
        if inside is not None:
            _require_questions(connection, statement.query[inside.end() :])


def duckdb_adapter() -> QueryAdapter:
    """The adapter of DuckDB.

    Raises:
        PrunerError: it is not installed, or runs no queries.
    """
    from pruner.adapters import QueryAdapter, load_adapter

    adapter = load_adapter("duckdb")
    if not isinstance(adapter, QueryAdapter):
        raise PrunerError("the installed adapter of duckdb runs no queries: it has no `connect`")
    return adapter


def mentioned(tables: Catalog, select: str) -> list[str]:
    """The known tables that the query may name; the others need not be opened."""
    folded = select.casefold()
    return [name for name in tables.names(aliases=True) if name.rpartition(".")[2].casefold() in folded]


def _print_explanation(rows: Iterable[tuple[Any, ...]]) -> None:
    for _, drawing in rows:
        for line in str(drawing).splitlines():
            write_line(printable(line).rstrip())


def _refused_by_duckdb(error: Exception, known: tuple[str, ...]) -> PrunerError | None:
    """What DuckDB refuses, as an error of ours in one sentence; None for anything else."""
    if type(error).__module__.partition(".")[0] not in ("duckdb", "_duckdb"):
        return None
    sentence, _, details = str(error).partition("\n\n")
    missing = MISSING_TABLE.search(sentence)
    if missing is not None and missing["near"] not in known:
        sentence = _without_table(missing["name"], known)
    line = _ERROR_LINE.search(details)
    if line:
        sentence += f" (line {line.group(1)} of the query)"
    is_text = type(error).__name__ == "ParserException" or (
        type(error).__name__ == "BinderException" and not _MISSING_COLUMN.search(sentence) and missing is None
    )
    return PredicateError(sentence) if is_text or _never_converts(sentence) else PrunerError(sentence)


def _never_converts(sentence: str) -> bool:
    """Whether DuckDB cannot read a constant of the query as a column's type, or has no cast between two types."""
    of_a_row = "source column" in sentence and "Unimplemented type" not in sentence
    return sentence.startswith("Conversion Error") and not of_a_row


def _without_table(name: str, known: tuple[str, ...]) -> str:
    from pruner.catalog.config import is_place

    if is_place(name):
        short = re.sub(r"\W+", "_", name.rstrip("/").rpartition("/")[2]) or "t"
        return f"{name} is a location and needs a name: add --table {short}={name}, and write FROM {short}"
    tables = f"known are {', '.join(known)}" if known else "none is known"
    return f"unknown table {name}: pass --table {name}=URI, or name it in pruner.toml ({tables})"


def _rows(connection: QueryConnection) -> Iterator[tuple[Any, ...]]:
    while rows := connection.fetchmany(FETCHED_ROWS):
        yield from rows


def _answer(
    columns: list[tuple[str, str]], rows: list[tuple[Any, ...]], scans: Iterable[ScanRecord]
) -> dict[str, Any]:
    import msgspec

    return {
        "columns": [{"name": name, "type": type_name} for name, type_name in columns],
        "rows": rows,
        "scans": [
            {
                "name": scan.table,
                "reason": scan.reason,
                "report": None if scan.plan is None else msgspec.Raw(scan.plan.to_json().encode()),
            }
            for scan in scans
        ],
    }


def _report_scans(scans: Iterable[ScanRecord]) -> None:
    """Say on standard error what was pruned: standard output holds nothing but the rows."""
    from pruner.adapters import UnreadScan  # slow, and --help does without

    for scan in scans:
        left = scan.left if isinstance(scan, UnreadScan) else None
        if left is None and isinstance(scan, UnreadScan) and scan.is_unread:
            sys.stderr.write(printable(f"{scan.table}: {scan.reason}") + "\n")
            continue
        plan = scan.plan if left is None else left
        reason = f"not pruned: {scan.reason}" if scan.reason else ""
        if left is not None:
            reason = left.steps[-1].clause
        figures = (
            ""
            if plan is None
            else (
                f"{plan.kept:,} of {counted(plan.total, plan.snapshot.noun)} read, "
                f"{data_size(plan.bytes_kept)} of {data_size(plan.bytes_total)}"
            )
        )
        sys.stderr.write(printable(f"{scan.table}: {'; '.join(filter(None, (figures, reason)))}") + "\n")
        for note in () if plan is None else plan.fallbacks:
            sys.stderr.write(printable(f"{scan.table}: {note}") + "\n")
