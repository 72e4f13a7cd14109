"""The page at `/`: plain HTML without scripts, everything in it escaped."""

from __future__ import annotations

import base64
import hashlib
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from pruner.showing.words import counted
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.maintenance.status import IndexStatus
    from pruner.service.journal import Entry
    from pruner.service.overview import Overview, TableOverview

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
    # No script runs, nothing is loaded from anywhere, no other page can frame it, and no cache keeps it.
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
            f"<p>Hudi's own index {_text(name)}: {_text(use)}</p>"
            for name, use in status.hudi_indexes.items()
        ]
        if status.indexes:
            parts.append(_indexes(status.indexes))
    if table.advice:
        parts.append(f'<ul class="do">{"".join(f"<li>{_text(each)}</li>" for each in table.advice)}</ul>')
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
    found = plan.outcome
    made = datetime.fromtimestamp(plan.made_at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    by = ", ".join(f"{index} ({count:,})" for index, count in found.indexes)
    reasons = "".join(f"<br>{_text(reason)}" for reason in found.fallbacks)
    return (
        f'<tr><th scope="row"><a href="/v1/plans/{_text(found.plan_id)}">{made}</a></th><td>{_text(found.table)}</td>'
        f"<td>{_text(found.engine)}</td><td><code>{_text(found.shape)}</code>{reasons}</td><td>{_text(by)}</td>"
        f'<td class="number">{found.kept:,} of {found.total:,}</td>'
        f'<td class="number">{plan.seconds * 1000:.1f}</td></tr>'
    )


def _grid(caption: str, head: tuple[tuple[str, ...], tuple[str, ...]], rows: Iterable[str]) -> str:
    texts, numbers = head
    cells = "".join(f'<th scope="col">{each}</th>' for each in texts)
    cells += "".join(f'<th scope="col" class="number">{each}</th>' for each in numbers)
    heads = f"<caption>{caption}</caption><thead><tr>{cells}</tr></thead>"
    return f"<table>{heads}<tbody>{''.join(rows)}</tbody></table>"


def _row(texts: tuple[str, ...], numbers: tuple[str, ...]) -> str:
    first, *others = texts
    cells = f'<th scope="row">{_text(first)}</th>' + "".join(f"<td>{_text(each)}</td>" for each in others)
    cells += "".join(f'<td class="number">{_text(each)}</td>' for each in numbers)
    return f"<tr>{cells}</tr>"


def _text(text: str) -> str:
    return escape(text, quote=True)
