"""What is known of the fields of one predicate: sources that read what that predicate asks for, and keep it."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Protocol

from pruner.evidence.sources import Sources
from pruner.expr.fields import leaves

if TYPE_CHECKING:
    from pruner.expr.bound import BoundExpr
    from pruner.schema import Field


class KnowsFields(Protocol):
    """Gives the sources of fields, as `pruner.evidence.snapshot.SnapshotEvidence` does."""

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field."""
        ...


class Focus:
    """Evidence for one predicate. Threads may share it."""

    def __init__(self, evidence: KnowsFields, predicate: BoundExpr) -> None:
        self._evidence = evidence
        self._leaves = tuple(leaves(predicate))
        self._found: dict[Field, Sources] = {}
        self._lock = Lock()

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field, for this predicate."""
        with self._lock:
            if about not in self._found:
                asked = [leaf for leaf in self._leaves if leaf.field == about]
                known = self._evidence.sources(about)
                self._found[about] = Sources([each.focused(asked) for each in known.usable], known.fallbacks)
            return self._found[about]
