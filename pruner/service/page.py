"""The page at `/`: each table with its indexes, the last plans, and advice for the operator of the service.

Plain HTML without scripts; all content is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from pruner.errors import PrunerError
from pruner.showing.words import are, counted, third
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pruner.maintenance.status import IndexStatus, TableStatus
    from pruner.service.journal import Entry, Lately, PlanOutcome
    from pruner.service.served import Served


MANY_PLANS = 100
"""Consecutive plans that used an index without effect before the page names it."""

FEW_PLANS = 5
"""Fewest plans of a table, among the last ones, before they are judged."""

_log = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class TableOverview:
    """One table; `status` is None if it cannot be read, or has not been opened yet."""

    name: str
    aliases: tuple[str, ...]
    status: TableStatus | None
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the page shows; `problem` says why the current configuration file is not in effect."""

    tables: tuple[TableOverview, ...]
    plans: tuple[Entry, ...]
    planned: int
    problem: str | None


def overview_of(served: Served, lately: Lately) -> Overview:
    """Return the state of all tables now; `lately` has the last plans."""
    tables = tuple(
        _table_overview(
            served,
            table.name,
            tuple(table.aliases),
            [plan.outcome for plan in lately.entries if plan.outcome.table == table.name],
        )
        for table in served.planning.tables
    )
    return Overview(tables, lately.entries, lately.count, served.problem)


def _table_overview(
    served: Served, name: str, aliases: tuple[str, ...], plans: Sequence[PlanOutcome]
) -> TableOverview:
    if served.standing(name) is None:
        return TableOverview(name, aliases, None, ("It is being opened: load this page again in a moment.",))
    try:
        status = served.table(name).status()
    except PrunerError as error:
        # Messages of stores can contain locations and keys: they go to the log.
        _log.warning("table %s cannot be read: %s", name, error)
        return TableOverview(
            name, aliases, None, (f"It cannot be read: the log says why. Try: pruner doctor {name}",)
        )
    return TableOverview(name, aliases, status, tuple(advice(name, status, plans)))


def advice(name: str, status: TableStatus, plans: Sequence[PlanOutcome]) -> Iterator[str]:
    """Say what would let plans of a table leave out more; yields nothing if all is well."""
    yield from (f"{reason[:1].upper()}{reason[1:]}." for reason in status.fallbacks)
    unread = len(status.problems)
    if unread:
        said = f"{counted(unread, 'file')} cannot be read and stay{third(unread)} in every plan"
        yield f"{said}. See: pruner status {name}"
    if not status.indexes and not status.hudi_indexes:
        columns = f"CREATE INDEX stats ON {name} (*)"
        yield f'No index: only partitions prune. Try: pruner sql "{columns}"'
    for index in status.indexes:
        yield from _index_advice(name, index, status.noun)
    yield from _plan_advice(name, plans)


def _index_advice(name: str, index: IndexStatus, noun: str) -> Iterator[str]:
    refused = sum(index.refused.values())
    missing = index.coverable - index.covered - refused
    if index.note is not None:
        yield f"Index {index.name} is not used: {index.note}."
    elif missing > 0:
        yield (
            f"{missing:,} of {counted(index.coverable, noun)} {are(missing)} not in index {index.name} and "
            f"stay{third(missing)} in every plan. Run: pruner refresh {name}"
        )
    if index.idle >= MANY_PLANS:
        yield (
            f"Index {index.name} left out nothing in the last {index.idle:,} of {index.plans:,} plans that asked it "
            f"here. See whether it is worth its {index.bytes:,} bytes: pruner advise {name}"
        )
    for reason, count in index.refused.items():
        yield f"{counted(count, noun)} cannot be indexed by {index.name}: {reason}."


def _plan_advice(name: str, plans: Sequence[PlanOutcome]) -> Iterator[str]:
    """The form of predicate that most often left out nothing, if most of the last plans left out nothing."""
    idle = Counter(plan.shape for plan in plans if plan.kept == plan.total > 1)
    if len(plans) >= FEW_PLANS and sum(idle.values()) * 2 > len(plans):
        shape, count = idle.most_common(1)[0]
        yield (
            f"{sum(idle.values())} of the last {len(plans)} plans left out nothing, most often "
            f"{shape} ({counted(count, 'time')}). See: pruner explain {name} --where …"
        )


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #222; background: #fff; }
h1 { font-size: 1.4rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% } caption { text-align: left; font-weight: 600 }
tbody th { font-weight: inherit; overflow-wrap: anywhere }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #ddd; vertical-align: top }
td.number, th.number { text-align: right } code { overflow-wrap: anywhere }
.do { background: #fff6d6; padding: .5rem .75rem } ul.do { padding-left: 2rem } .well { color: #17632e }
@media screen { main { overflow: auto hidden } }
"""

_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

PAGE_HEADERS = {
    # No script runs, nothing is loaded from elsewhere, no other page can frame it, and no cache stores it.
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def page(overview: Overview) -> bytes:
    """Return the page as UTF-8."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>pruner</title>',
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>',
        f"<main><h1>pruner {escape(__version__)}</h1>",
        f"<p>Tables: {len(overview.tables):,}. Plans since the service began: {overview.planned:,}.</p>",
    ]
    if overview.problem is not None:
        parts.append(
            f'<p class="do">The configuration was changed and cannot be used, so the tables are served as before: '
            f"{_text(overview.problem)}</p>"
        )
    parts += [_table(table) for table in overview.tables]
    parts += [_plans(overview.plans), "</main></body></html>"]
    return "".join(parts).encode("utf-8", "backslashreplace")


def _table(table: TableOverview) -> str:
    also = f" (also {_text(', '.join(table.aliases))})" if table.aliases else ""
    parts = [f"<h2>{_text(table.name)}</h2>"]
    if table.status is not None:
        status = table.status
        parts.append(f"<p>{_text(status.format)}, {counted(status.slices, status.noun)}{also}</p>")
        parts += [
            f"<p>The table's own index {_text(name)}: {_text(use)}</p>"
            for name, use in status.hudi_indexes.items()
        ]
        if status.indexes:
            parts.append(_indexes(status.indexes))
    if table.advice:
        parts.append(f'<ul class="do">{"".join(f"<li>{_text(note)}</li>" for note in table.advice)}</ul>')
    else:
        parts.append('<p class="well">Nothing to do.</p>')
    return "".join(parts)


def _indexes(indexes: Iterable[IndexStatus]) -> str:
    head = ("Index", "Type", "Columns"), ("Covered", "Bytes", "Plans", "In vain", "Slices left out")
    rows = (
        _row(
            (index.name, index.using, ", ".join(index.columns)),
            (
                f"{index.covered:,} of {index.coverable:,}",
                f"{index.bytes:,}",
                f"{index.plans:,}",
                f"{index.idle:,}",
                f"{index.dropped:,}",
            ),
        )
        for index in indexes
    )
    return _grid("Indexes", head, rows)


def _plans(plans: Iterable[Entry]) -> str:
    rows = [_plan(plan) for plan in plans]
    if not rows:
        return "<h2>Last plans</h2><p>None yet.</p>"
    head = ("Time (UTC)", "Table", "For", "Predicate", "By"), ("Slices kept", "ms")
    return f"<h2>Last plans</h2>{_grid('Newest first', head, rows)}"


def _plan(plan: Entry) -> str:
    outcome = plan.outcome
    made = datetime.fromtimestamp(plan.made_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    by = ", ".join(f"{index} ({count:,})" for index, count in outcome.indexes)
    reasons = "".join(f"<br>{_text(reason)}" for reason in outcome.fallbacks)
    return (
        f'<tr><th scope="row"><a href="/v1/plans/{_text(outcome.plan_id)}">{made}</a></th>'
        f"<td>{_text(outcome.table)}</td><td>{_text(outcome.engine)}</td><td><code>{_text(outcome.shape)}</code>{reasons}</td><td>{_text(by)}</td>"
        f'<td class="number">{outcome.kept:,} of {outcome.total:,}</td>'
        f'<td class="number">{plan.seconds * 1000:.1f}</td></tr>'
    )


def _grid(caption: str, head: tuple[tuple[str, ...], tuple[str, ...]], rows: Iterable[str]) -> str:
    texts, numbers = head
    cells = "".join(f'<th scope="col">{text}</th>' for text in texts)
    cells += "".join(f'<th scope="col" class="number">{number}</th>' for number in numbers)
    heads = f"<caption>{caption}</caption><thead><tr>{cells}</tr></thead>"
    return f"<table>{heads}<tbody>{''.join(rows)}</tbody></table>"


def _row(texts: tuple[str, ...], numbers: tuple[str, ...]) -> str:
    first, *others = texts
    cells = f'<th scope="row">{_text(first)}</th>' + "".join(
        f"<td>{_text(other_name)}</td>" for other_name in others
    )
    cells += "".join(f'<td class="number">{_text(number)}</td>' for number in numbers)
    return f"<tr>{cells}</tr>"


def _text(text: str) -> str:
    return escape(text, quote=True)
