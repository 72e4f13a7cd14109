"""`pruner advise`: which indexes and which layout would help the statements of a log."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from pruner.cli.commands.queries import MISSING_TABLE, duckdb_adapter, mentioned
from pruner.cli.options import (
    DialectOption,
    Output,
    OutputOption,
    among_tables,
)
from pruner.cli.output import print_columns, print_json, printable, write_line
from pruner.cli.statement_logs import LoggedQuery, asked_in, with_name
from pruner.errors import PrunerError, first_line
from pruner.expr.engines import SqlEngine
from pruner.expr.semantics import Semantics
from pruner.showing.progress import progress_bar
from pruner.showing.words import counted, data_size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.advice.forecast import Pace
    from pruner.advice.proposals import Advice
    from pruner.catalog.names import Catalog
    from pruner.expr.nodes import Expr
    from pruner.planning.plan import Plan
    from pruner.table import Table

STATEMENTS = 2000
"""Different statements of a log at most that are planned: those that come most often."""

SHOWN = 20
"""Questions that the text lists."""

BUDGET = 10.0
"""About how many seconds the sample of the data takes at most; all statements are read before it."""

BudgetOption = Annotated[
    float,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        min=0.1,
        help="Time limit of the sample, taken once all statements are read; more time allows a larger one.",
    ),
]
LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log",
        metavar="FILE",
        help="Statements (one per line, or JSON), a DuckDB profile, a Spark event log; - is standard input.",
    ),
]
SqlOption = Annotated[
    bool,
    typer.Option("--sql", help="Print CREATE INDEX statements; the rest goes to standard error."),
]


@among_tables
def advise(
    tables: Catalog,
    table: str,
    log: LogOption = None,
    dialect: DialectOption = SqlEngine.DUCKDB,
    sql: SqlOption = False,
    budget: BudgetOption = BUDGET,
    output: OutputOption = Output.TEXT,
) -> None:
    """Propose indexes and layouts, with their costs and savings."""
    from pruner.advice.forecast import Pace  # slow, and --help does without

    opened = tables.open(table)
    notes: list[str] = []
    with progress_bar(f"advise {printable(table)}") as told:
        asked = _Log(log, dialect, Pace(None, told), notes) if log is not None else None
        plans = [] if asked is None else asked.planned(table, opened, tables)
        if log is not None and not plans:
            reasons = "".join(f"; {note}" for note in notes[:3])
            raise PrunerError(f"no statement of {log} asks anything of {table}{reasons}")
        advice = opened.advise(plans, budget=Pace(budget, told))
    advice = _with_notes(advice, notes, asked is not None and asked.unjudged)
    if output is Output.JSON:
        print_json(_whole(asdict(advice)))
    elif sql:
        with redirect_stdout(sys.stderr):  # so that a file of statements needs no second run to be understood
            _print(advice)
        for proposal in advice.proposals:
            write_line(f"{proposal.sql};")
    else:
        _print(advice)


def _with_notes(advice: Advice, notes: list[str], unjudged: bool) -> Advice:
    """Advice with what is to be said of the statements; no index is useless to statements that nobody judged."""
    if not unjudged:
        return replace(advice, notes=(*notes, *advice.notes))
    from pruner.advice.advisor import NO_DROPS  # slow, and --help does without

    withheld = [NO_DROPS] if advice.useless else []
    return replace(advice, useless={}, notes=(*notes, *advice.notes, *withheld))


def _log_text(log: Path) -> str:
    if str(log) == "-":
        return sys.stdin.read()
    try:
        return log.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"cannot read {str(log)!r}: {reason}", param_hint="--log") from error


def _whole(advice: dict[str, Any]) -> dict[str, Any]:
    """Advice for programs: forecasts of files and bytes are means, and are rounded to whole ones."""
    counts = ("files", "bytes")

    def whole(name: str, value: Any) -> Any:
        match value:
            case dict():
                return {key: whole(key, item) for key, item in cast("dict[str, Any]", value).items()}
            case list() | tuple():
                return [whole(name, item) for item in cast("list[Any]", value)]
            case float() if any(count in name for count in counts):
                return round(value)
            case _:
                return value

    return whole("", advice)


@dataclass
class _Log:
    """The statements of a file, and how they are made into plans.

    `unjudged` says whether some statement was not understood or not looked at, or reads the table in a way in which an
    index can help that its plan does not show: the keys of a join are known only when it runs.
    """

    file: Path
    dialect: str
    pace: Pace
    notes: list[str]
    unjudged: bool = False

    def planned(self, name: str, table: Table, tables: Catalog) -> list[Plan]:
        """The plans of scans of the table in a log, each as often as it comes."""
        folder = Path(table.uri).name
        short = folder if Path(name).name == folder else name
        counts: Counter[LoggedQuery] = Counter()
        for asked in asked_in(_log_text(self.file)):
            if asked.place is None:
                text = asked.text.strip().rstrip(";").strip()
                for each in dict.fromkeys((short, folder)):
                    text = with_name(text, table.uri, each)
                counts[LoggedQuery(text)] += 1
            elif asked.place.rstrip("/") == table.uri.rstrip("/"):
                counts[asked] += asked.times
        texts = [count.text for count in counts if count.place is None]
        ask = _Asking(short, folder, table, tables, self.dialect, texts)
        from pruner.advice.forecast import STATEMENTS as READ  # slow, and --help does without

        planned: list[Plan] = []
        done = 0
        for asked, times in counts.most_common(STATEMENTS):
            done += 1
            self.pace.tell(READ * done / min(len(counts), STATEMENTS))
            if asked.unjudged is not None:
                self.notes.append(asked.unjudged)
                self.unjudged = True
                continue
            try:
                plans = ask.plans(asked)
            except Exception as error:  # whatever DuckDB or a parser refuses is one statement of many
                self.notes.append(f"not understood: {asked.text[:80]}: {_reason(error)}")
                self.unjudged = True
                continue
            self.unjudged |= bool(plans) and _has_other_side(asked, self.dialect)
            planned += plans * times
        if left := len(counts) - done:
            self.unjudged = True
            were = f"{counted(left, 'statement')} {'was' if left == 1 else 'were'} not looked at"
            self.notes.append(f"{were}: the {STATEMENTS:,} that were come as often or more often")
        return planned


def _has_other_side(asked: LoggedQuery, dialect: str) -> bool:
    """Whether a statement joins, also by a comma or a subquery in a condition: its other side may prune by keys."""
    if asked.place is not None:
        return False
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = sqlglot.parse(asked.text, read=dialect)
    except SqlglotError:
        return True
    queries = [query for tree in trees if tree is not None for query in tree.find_all(exp.Query)]
    return any(query.find(exp.Join) is not None or _is_value(query) for query in queries)


def _is_value(query: Any) -> bool:
    """Whether a query stands where a value does: not in FROM, in WITH, as a side of UNION, or as the statement."""
    from sqlglot import exp

    place = query.parent
    while isinstance(place, exp.Subquery):
        place = place.parent
    return not isinstance(place, exp.From | exp.Join | exp.CTE | exp.SetOperation | exp.Subquery | None)


def _reason(error: Exception) -> str:
    """Why a statement was not understood; for an unknown table, how to name it."""
    missing = MISSING_TABLE.search(str(error))
    if missing is None:
        return first_line(error)
    name = missing["name"]
    return f"unknown table {name}: pass --table {name}=URI"


class _Asking:
    """Makes plans of what a log asks, statements by DuckDB's optimizer."""

    def __init__(
        self, name: str, folder: str, table: Table, tables: Catalog, dialect: str, statements: list[str]
    ) -> None:
        """`name` and `folder` both name the table, the latter unless another table is known by it."""
        self._table = table
        self._dialect = dialect
        known = {other: tables.open(other) for other in mentioned(tables, "\n".join(statements))}
        known[name] = table
        if folder.casefold() not in map(str.casefold, known):
            known[folder] = table
        self._connection: Any = duckdb_adapter().connect(known, config={})

    def plans(self, asked: LoggedQuery) -> list[Plan]:
        """The plans of the table's scans.

        Raises:
            Exception: it is not understood.
        """
        if asked.is_expression:
            semantics = replace(Semantics.of("spark"), zone="UTC")  # by which the catalog planned it
            return [self._table.plan(_expression(asked.text), semantics=semantics)]
        if asked.place is not None:
            return [self._table.plan(asked.text, dialect="spark")]
        before = {id(scan) for scan in self._connection.last_plans}
        _explain(self._connection, _in_duckdb(asked.text, self._dialect))
        return [
            scan.plan
            for scan in self._connection.last_plans
            if id(scan) not in before and scan.plan is not None and scan.plan.snapshot.root == self._table.uri
        ]


def _expression(text: str) -> Expr:
    """The expression of a line of what clients asked of the service's catalog.

    Raises:
        PredicateError: it is none.
    """
    import msgspec  # slow, and --help does without

    from pruner.expr.wire.nodes import Node, expression_of

    return expression_of(msgspec.json.decode(text, type=Node))


def _in_duckdb(statement: str, dialect: str) -> str:
    """A statement of another engine as DuckDB would have it, for its optimizer to take apart."""
    if dialect == SqlEngine.DUCKDB:
        return statement
    import sqlglot

    return ";".join(sqlglot.transpile(statement, read=dialect, write="duckdb"))


def _explain(connection: Any, text: str) -> None:
    """Plan one SELECT without running it.

    Raises:
        PrunerError: it is none, or more than one.
    """
    kinds = [statement.type.name for statement in connection.extract_statements(text)]
    if kinds != ["SELECT"]:
        raise PrunerError("it is not one SELECT")
    connection.execute(f"EXPLAIN {text}")


def _print(advice: Advice) -> None:
    reads = sum(question.times for question in advice.questions)
    about = "about " if any(question.estimated for question in advice.questions) else ""
    write_line(
        f"table     {printable(advice.uri)}: {counted(advice.files, 'file')}, {data_size(advice.bytes)}"
    )
    write_line(
        f"judged by {counted(len(advice.questions), 'question')}, asked {counted(reads, 'time')}, and "
        f"{counted(advice.sampled, 'file')}"
    )
    write_line(
        f"read now  {data_size(advice.bytes_now)}; with all proposals {about}{data_size(advice.bytes_then)}"
    )
    write_line("")
    _print_proposals(advice)
    for layout in advice.layouts:
        how = "files sorted by" if layout.kind == "sort" else "a partition for each value of"
        share = layout.saved_bytes / max(layout.bytes + layout.saved_bytes, 1)
        write_line(
            f"layout: {how} {printable(layout.column)} would leave {about}{data_size(layout.bytes)} to read "
            f"with ranges alone, {share:.0%} less than as the files lie"
        )
    for name, reason in advice.useless.items():
        write_line(f"index {printable(name)}: {reason}; DROP INDEX {printable(name)} would lose nothing")
    write_line("")
    _print_questions(advice)
    if any(question.estimated for question in advice.questions):
        write_line(
            f"note: ~ is an estimate, by the data of {advice.sampled:,} of {counted(advice.files, 'file')}"
        )
    for note in advice.notes:
        write_line(f"note: {printable(note)}")


def _print_proposals(advice: Advice) -> None:
    if not advice.proposals:
        write_line("no index would save a hundredth of what is read")
    for number, proposal in enumerate(advice.proposals, 1):
        write_line(f"{number}. {printable(proposal.sql)}")
        write_line(
            f"   saves {'about ' if proposal.estimated else ''}"
            f"{data_size(proposal.saved_bytes)} ({proposal.saved_bytes / max(advice.bytes_now, 1):.0%}) and "
            f"{counted(round(proposal.saved_files), 'file')}; takes {data_size(proposal.bytes)} and "
            f"{proposal.seconds:.1f} s of one core"
        )
        helped = ", ".join(map(str, proposal.helped[:SHOWN]))
        write_line(f"   because {proposal.reason}; helps question {helped}")


def _print_questions(advice: Advice) -> None:
    rows: Iterable[tuple[object, ...]] = (
        (
            question.number,
            question.times,
            round(question.files_now),
            f"~{round(question.files_then):,}" if question.estimated else round(question.files_then),
            data_size(question.bytes_now),
            f"{'~' if question.estimated else ''}{data_size(question.bytes_then)}",
            question.predicate[:80],
        )
        for question in advice.questions[:SHOWN]
    )
    print_columns(("question", "times", "files now", "then", "bytes now", "then", "predicate"), rows)
