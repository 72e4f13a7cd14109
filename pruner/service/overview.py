"""What the page shows: each table with its indexes, the last plans, and what whoever runs the service should do."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pruner.errors import PrunerError
from pruner.showing.words import are, counted, third

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pruner.maintenance.status import IndexStatus, TableStatus
    from pruner.service.journal import Entry, Lately, Outcome
    from pruner.service.served import Served

MANY_PLANS = 100
"""Plans in a row that asked an index in vain before it is named."""

FEW_PLANS = 5
"""Plans of a table among the last ones before they are judged."""

_log = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class TableOverview:
    """One table; `status` is None for one that cannot be read, or was not opened yet."""

    name: str
    aliases: tuple[str, ...]
    status: TableStatus | None
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything that the page shows; `problem` says why the configuration file is not in force as it stands."""

    tables: tuple[TableOverview, ...]
    plans: tuple[Entry, ...]
    planned: int
    problem: str | None


def overview_of(served: Served, lately: Lately) -> Overview:
    """Look at all tables now; `lately` are the plans that were made."""
    tables = tuple(
        _table(
            served,
            table.name,
            tuple(table.aliases),
            [plan.outcome for plan in lately.entries if plan.outcome.table == table.name],
        )
        for table in served.planning.tables
    )
    return Overview(tables, lately.entries, lately.count, served.problem)


def _table(served: Served, name: str, aliases: tuple[str, ...], plans: Sequence[Outcome]) -> TableOverview:
    if served.standing(name) is None:
        return TableOverview(name, aliases, None, ("It is being opened: load this page again in a moment.",))
    try:
        status = served.table(name).status()
    except PrunerError as error:
        # What stores say can hold places and keys: it goes to the log.
        _log.warning("table %s cannot be read: %s", name, error)
        return TableOverview(
            name, aliases, None, (f"It cannot be read: the log says why. Try: pruner doctor {name}",)
        )
    return TableOverview(name, aliases, status, tuple(advice(name, status, plans)))


def advice(name: str, status: TableStatus, plans: Sequence[Outcome]) -> Iterator[str]:
    """Say what would let plans of a table leave out more; nothing where all is well."""
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


def _plan_advice(name: str, plans: Sequence[Outcome]) -> Iterator[str]:
    """The form of predicate that most often left out nothing, where most of the last plans did."""
    idle = Counter(plan.shape for plan in plans if plan.kept == plan.total > 1)
    if len(plans) >= FEW_PLANS and sum(idle.values()) * 2 > len(plans):
        shape, count = idle.most_common(1)[0]
        yield (
            f"{sum(idle.values())} of the last {len(plans)} plans left out nothing, most often "
            f"{shape} ({counted(count, 'time')}). See: pruner explain {name} --where …"
        )
