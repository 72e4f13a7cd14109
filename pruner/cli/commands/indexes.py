"""The commands about a table's indexes: sql, refresh, status, show-indexes."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pruner.cli.failures import complain, fail_with
from pruner.cli.options import (
    IndexUriOption,
    NamedTables,
    Output,
    OutputOption,
    StorageOption,
    catalog,
    given_text,
    on_table,
    pairs,
    saying_how_to_name_tables,
)
from pruner.cli.output import print_columns, print_json, printable, write_line
from pruner.errors import PrunerError
from pruner.expr.engines import SqlEngine
from pruner.showing.words import counted, data_size, no_more

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
    from types import FrameType

    from pruner.ddl.execute import SqlResult
    from pruner.maintenance.build import RefreshResult
    from pruner.maintenance.estimate import IndexEstimate
    from pruner.maintenance.status import IndexStatus, TableStatus
    from pruner.pipeline.runners import Run
    from pruner.table import Table

# `pruner refresh --watch`: refreshes again and again, as RFC-63's asynchronous indexer follows a table.


class _Stopped(BaseException):
    """A signal asked the process to end. It is not an `Exception`, so that no handler of errors takes it for one."""


def follow(
    refresh: Callable[[], RefreshResult],
    say: Callable[[RefreshResult], None],
    complaints: Callable[[RefreshResult], list[str]],
    interval: float,
) -> None:
    """Refresh every `interval` seconds until SIGINT or SIGTERM comes; then return.

    Args:
        refresh: one round. What an interrupted one had finished is taken up by the next refresh.
        say: reports the first round, and each that indexed something.
        complaints: a sentence for everything that a round could not index.
        interval: pause between the end of a round and the start of the next.
    """
    said: list[str] = []
    first = True
    with _stoppable():
        try:
            while True:
                try:
                    result = refresh()
                except PrunerError as error:
                    messages = [f"{error}; trying again in {interval:g} s"]
                else:
                    messages = complaints(result)
                    if first or result.indexed or result.resumed:
                        say(result)
                    first = False
                # The same trouble in every round is said once.
                for sentence in messages if messages != said else ():
                    complain(sentence)
                said = messages
                time.sleep(interval)
        except _Stopped:
            return


@contextmanager
def _stoppable() -> Generator[None]:
    """Turn the signals into an exception, which also ends a long build; the second one ends the process at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, signal.SIG_DFL)
        raise _Stopped

    before = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)


# Indexes as `pruner status` and `pruner show-indexes` list them.


def print_indexes(status: TableStatus) -> None:
    """Write a table of the indexes, and a line for whatever is to be said of one."""
    from pruner.maintenance.status import REASONS  # with what works on arrays, which --help does without

    header = ("index", "type", "columns", "covered", "of", "segments", "bytes", "refreshed")
    if status.indexes:
        print_columns(header, (_index_row(index) for index in status.indexes))
    else:
        write_line("no indexes are known" if status.fallbacks else "no indexes")
    for note in _notes(status.indexes, REASONS, status.noun):
        write_line(f"note: {printable(note)}")
    for name, use in status.hudi_indexes.items():
        write_line(f"the table's own index {printable(name)}: {use}")
    for reason in status.fallbacks:
        write_line(f"note: {printable(reason)}")
    for place, sentence in status.problems.items():
        write_line(f"problem: {printable(problem_of(place, sentence))}")


def _index_row(index: IndexStatus) -> tuple[object, ...]:
    columns = ", ".join(index.columns)
    shown = columns if len(columns) <= 60 else columns[:59] + "…"
    refreshed = index.refreshed_at or "never"
    return (
        index.name,
        index.using,
        shown,
        index.covered,
        index.coverable,
        index.segments,
        index.bytes,
        refreshed,
    )


def _notes(indexes: Iterable[IndexStatus], reasons: Mapping[str, str], noun: str) -> Iterator[str]:
    """What is to be said of indexes: each sentence once, with the names of all indexes of which it is true."""
    told: dict[tuple[str, str], list[str]] = {}
    for index in indexes:
        if index.note:
            yield index.note
        for sentence in _about(index, reasons, noun):
            told.setdefault(sentence, []).append(index.name)
    for (of_one, of_several), names in told.items():
        if len(names) == 1:
            yield f"index {names[0]} {of_one}"
        else:
            yield f"indexes {', '.join(names[:-1])} and {names[-1]} {of_several}"


def _about(index: IndexStatus, reasons: Mapping[str, str], noun: str) -> Iterator[tuple[str, str]]:
    """The sentences about an index without their subject, as they read of one index and of several."""
    if index.uncovered:
        why = ", ".join(f"{count:,} {reasons[reason]}" for reason, count in index.uncovered.items())
        yield f"does not cover {noun}s: {why}", f"do not cover {noun}s: {why}"
    if index.gone:
        why, whole = no_more(index.gone), index.is_without_columns
        left = ("no query", "no query") if whole else ("its other columns alone", "their other columns alone")
        yield f"serves {left[0]}: {why}", f"serve {left[1]}: {why}"
    if index.gained:
        gained = f"gained {counted(len(index.gained), 'column')} ({', '.join(index.gained)}) as the table did"
        gained += f": the next refresh reads every {noun} again"
        yield gained, gained
    if index.idle:
        idle = (
            f"left out nothing in the last {index.idle:,} of {counted(index.plans, 'plan')} of this process"
        )
        yield idle, idle
    for reason, count in index.refused.items():
        refused = f"cannot cover {counted(count, noun)}: {reason}"
        yield refused, refused
    for sentence in index.left_out.values():
        yield f"leaves a column out: {sentence}", f"leave a column out: {sentence}"
    if index.where is not None:
        yield f"takes partitions with {index.where} alone", f"take partitions with {index.where} alone"


def problem_of(place: str, sentence: str) -> str:
    """The sentence with the place in front, unless it names the place itself."""
    return sentence if place in sentence else f"{place}: {sentence}"


WATCH_SEGMENTS = 256
"""Segments of one index above which `refresh --watch` merges them."""

_PAUSE_SECONDS = 10.0

StatementArgument = Annotated[
    str,
    typer.Argument(
        metavar="STATEMENT",
        help="CREATE INDEX, DROP INDEX, REFRESH INDEX or SHOW INDEXES, separated by ; or @FILE, or -.",
    ),
]
IndexOption = Annotated[str | None, typer.Option("--index", metavar="NAME", help="Only this index.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be read.")]
StatementDryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="CREATE, REFRESH: only estimate the cost.")
]
StatementDialectOption = Annotated[
    SqlEngine, typer.Option("--dialect", help="CREATE: SQL dialect of expressions.")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="CREATE: create the index even if it is too large for its table.")
]
PartitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--partition", metavar="PATH", help="Only this partition and those below it (year=2024); repeatable."
    ),
]
SparkOption = Annotated[
    str | None,
    typer.Option("--spark", metavar="MASTER", help="Build on Spark: local[2], yarn, spark://…, k8s://…"),
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Follow the table until SIGINT or SIGTERM.")]
IntervalOption = Annotated[
    float | None,
    typer.Option(
        "--interval", metavar="SECONDS", min=0.1, help="Pause between rounds of --watch; 10 by default."
    ),
]


def sql(
    statement: StatementArgument,
    table: NamedTables = None,
    index_uri: IndexUriOption = None,
    option: StorageOption = None,
    dialect: StatementDialectOption = SqlEngine.DUCKDB,
    force: ForceOption = False,
    dry_run: StatementDryRunOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Create, drop, refresh or show indexes."""
    from pruner.ddl.execute import execute
    from pruner.ddl.parser import DropIndex, ShowIndexes, parse_statements

    parsed = parse_statements(given_text(statement, "statement", "STATEMENT"))
    if dry_run and any(isinstance(statement, (DropIndex, ShowIndexes)) for statement in parsed):
        raise typer.BadParameter("only CREATE INDEX and REFRESH INDEX have a cost", param_hint="--dry-run")
    if index_uri is not None and any(
        isinstance(statement, DropIndex) and statement.table is None for statement in parsed
    ):
        raise typer.BadParameter("name the table: DROP INDEX name ON table", param_hint="--index-uri")
    tables = catalog(pairs(table, "--table"), index_uri, option)
    complaints: list[str] = []
    for number, each in enumerate(parsed, 1):
        with saying_how_to_name_tables(), _counting(number, len(parsed)):
            result = execute(each, tables, dialect=dialect, force=force, dry_run=dry_run)
        _print_result(result, output)
        complaints += _complaints(result.refresh) if result.refresh else []
    fail_with(complaints)


@contextmanager
def _counting(number: int, count: int) -> Generator[None]:
    """Have an error of one statement of several say what was done: statements take effect one by one."""
    try:
        yield
    except PrunerError as error:
        if count > 1:
            done, left = counted(number - 1, "statement"), counted(count - number, "statement")
            error.add_note(f"statement {number} of {count}: {done} before it done, {left} after it not run")
        raise


def _print_result(result: SqlResult, output: Output) -> None:
    if output is Output.JSON:
        print_json(_statement_json(result))
    elif result.status is not None:
        print_indexes(result.status)
    else:
        write_line(_done(result))
    sys.stdout.flush()  # before the next statement builds, which may take long


@on_table
def refresh(
    table: Table,
    index: IndexOption = None,
    partition: PartitionOption = None,
    spark: SparkOption = None,
    dry_run: DryRunOption = False,
    watch: WatchOption = False,
    interval: IntervalOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Index what is not covered yet."""
    if watch and dry_run:
        raise typer.BadParameter("--watch refreshes, so it excludes --dry-run", param_hint="--dry-run")
    if interval is not None and not watch:
        raise typer.BadParameter("it sets the pause of --watch: add --watch", param_hint="--interval")

    def say(result: RefreshResult) -> None:
        if output is Output.JSON:
            print_json({"table": table.uri, "index": index, **_refresh_json(result)})
        else:
            write_line(_counts(result) if table.indexes() else _NO_INDEX)
        sys.stdout.flush()

    with _place_of(None if dry_run else spark) as run:

        def once() -> RefreshResult:
            return table.refresh(index=index, partition=partition or (), run=run, dry_run=dry_run)

        if watch:
            follow(lambda: _compacting(table, once()), say, _complaints, interval or _PAUSE_SECONDS)
            return
        result = once()
    say(result)
    fail_with(_complaints(result))


@contextmanager
def _place_of(master: str | None) -> Generator[Run]:
    """Where to build: on this machine, or in a Spark session that ends with the command."""
    from pruner.pipeline.runners import LOCAL

    if master is None:
        yield LOCAL
        return
    from pruner.pipeline.spark import spark_session

    with spark_session(master) as session:
        yield session


def _compacting(table: Table, result: RefreshResult) -> RefreshResult:
    """Keep the segments few while a table is followed: every round that indexes something leaves a batch."""
    if (
        result.indexed
        and max((index.segments for index in table.status().indexes), default=0) > WATCH_SEGMENTS
    ):
        table.compact()
    return result


@on_table
def status(
    table: Table,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show coverage, age and size of each index."""
    table_status = table.status()
    if output is Output.JSON:
        print_json(_status_json(table_status))
        return
    for place, uri in enumerate(table_status.roots or (table_status.uri,)):
        write_line(
            f"{'' if place else 'table':<9} {printable(uri)}{'' if place else f' ({table_status.format})'}"
        )
    write_line(f"snapshot  {printable(table_status.snapshot_id)}")
    write_line(
        f"{table_status.noun + 's':<9} {table_status.slices:,}, of which {table_status.coverable:,} can be indexed"
    )
    for reason, count in table_status.uncoverable.items():
        write_line(f"          {count:,} cannot: {printable(reason)}")
    write_line("")
    print_indexes(table_status)


@on_table
def show_indexes(
    table: Table,
    output: OutputOption = Output.TEXT,
) -> None:
    """List the indexes, as SHOW INDEXES does."""
    status = table.status()
    if output is Output.JSON:
        print_json(_indexes_json(status))
    else:
        print_indexes(status)


def _statement_json(result: SqlResult) -> dict[str, Any]:
    if result.status is not None:
        return {"statement": result.statement, **_indexes_json(result.status)}
    return {
        "statement": result.statement,
        "table": result.table,
        "index": result.index,
        "changed": result.changed,
        "refresh": _refresh_json(result.refresh) if result.refresh else None,
    }


def _refresh_json(result: RefreshResult) -> dict[str, Any]:
    return {
        "dry_run": result.dry_run,
        "indexed": result.indexed,
        "already": result.already,
        "uncoverable": result.uncoverable,
        "files": result.files,
        "bytes": result.bytes,
        "bytes_read": result.bytes_read,
        "failures": [asdict(failure) for failure in result.failures],
        "problems": dict(result.problems),
        "resumed": result.resumed,
        "refused": dict(result.refused),
        "estimate": None if result.estimate is None else asdict(result.estimate),
        "declined": dict(result.declined),
        "gained": dict(result.gained),
        "gone": dict(result.gone),
    }


def _status_json(status: TableStatus) -> dict[str, Any]:
    return {
        "format": status.format,
        "roots": status.roots,
        "snapshot_id": status.snapshot_id,
        "slices": status.slices,
        "coverable": status.coverable,
        "uncoverable": status.uncoverable,
        **_indexes_json(status),
        "problems": status.problems,
    }


def _indexes_json(status: TableStatus) -> dict[str, Any]:
    return {
        "table": status.uri,
        "indexes": [asdict(index) for index in status.indexes],
        "hudi_indexes": status.hudi_indexes,
        "fallbacks": status.fallbacks,
    }


def _done(result: SqlResult) -> str:
    match result.statement:
        case "create" if result.refresh is not None and result.refresh.dry_run:
            done = f"index {result.index} is not created"
        case "create" if not result.changed:
            done = f"index {result.index} exists already: nothing done"
        case "create":
            done = f"index {result.index} created"
        case "drop":
            done = (
                f"index {result.index} dropped"
                if result.changed
                else f"no index {result.index}: nothing done"
            )
        case _ if result.refresh is not None and result.refresh.dry_run:
            done = f"index {result.index} is not refreshed"
        case _:
            done = f"index {result.index} refreshed"
    return printable(done) + (f": {_counts(result.refresh)}" if result.refresh else "")


_NO_INDEX = "the table has no index, so there is nothing to refresh: make one with CREATE INDEX (pruner sql)"


def _counts(result: RefreshResult) -> str:
    what = "to be indexed" if result.dry_run else "indexed"
    counts = f"{counted(result.indexed, result.noun)} {what}, {result.already:,} were covered, "
    counts += (
        f"{data_size(result.bytes)} of files to look at"
        if result.dry_run
        else f"{data_size(result.bytes_read)} of {data_size(result.bytes)} read"
    )
    verb = "is" if result.dry_run else "was"
    for index, columns in result.gained.items():
        columns_gained = f"{counted(len(columns), 'column')} ({printable(', '.join(columns))})"
        counts += (
            f"; index {printable(index)} gained {columns_gained}, so every {result.noun} {verb} read again"
        )
    for index, columns in result.gone.items():
        counts += f"; index {printable(index)} serves no query, so drop it: {printable(no_more(columns))}"
    for index, slices in result.declined.items():
        counts += f"; index {printable(index)} cannot take {slices:,} of them (pruner status says why)"
    if result.resumed:
        counts += f"; {result.resumed:,} had been indexed by a build that was cut off"
    if result.estimate is not None:
        counts += f"; {_cost(result.estimate)}"
    if result.uncoverable:
        counts += f"; {result.uncoverable:,} cannot be indexed (unsettled or unreadable)"
    return counts


def _cost(cost: IndexEstimate) -> str:
    """What an index would cost, and what is to be said against it."""
    share = cost.bytes / max(cost.table_bytes, 1)
    values = [f"{count:,} values of {name} a file" for name, count in cost.values_per_file.items() if count]
    parts = [
        f"about {data_size(cost.bytes)} ({share:.0%} of the files)",
        f"{cost.seconds:.1f} s of one core",
        *values,
    ]
    return "; ".join([", ".join(parts), *filter(None, (cost.better, cost.refused))])


def _complaints(result: RefreshResult) -> list[str]:
    complaints = [
        f"not indexed: {problem_of(place, sentence)}" for place, sentence in result.problems.items()
    ]
    for failure in result.failures:
        index = f"index {failure.index}" if failure.index else "any index"
        complaints.append(f"not in {index}: {problem_of(failure.slice, failure.reason)}")
    return complaints + list(result.refused.values())
