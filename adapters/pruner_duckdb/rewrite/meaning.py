"""Checks whether a statement means the same to the session as to the databases that plan for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pruner_duckdb.decode.calls import MOMENTS
from pruner_duckdb.session.session import DuckDBSessionState, require_same_meaning
from pruner_duckdb.shadow.macros import OwnMacros
from pruner_duckdb.shadow.predicates import Draft, Predicates, Unpruned, comparison_texts
from pruner_duckdb.shadow.shadow import NotPlanned, Shadow

if TYPE_CHECKING:
    from pruner_duckdb.rewrite.remembered import Observations
    from pruner_duckdb.sql.select import Select


class SessionAgreement:
    """Compares how the sessions of one database and the shadow understand statements, and knows the macros."""

    def __init__(self, shadow: Shadow, predicates: Predicates) -> None:
        self._shadow = shadow
        self._predicates = predicates
        self.macros = OwnMacros(shadow)

    def is_shipped(self, select: Select) -> bool:
        """Tell whether a statement means the same in all new databases: it calls only functions of DuckDB that depend
        on nothing but their arguments, and has no arrow, which is a lambda or a JSON path.
        """
        known = self._shadow.repeatable | MOMENTS
        return (
            all(use.name in known for use in select.functions)
            and not any(reference.function for reference in select.references)
            and b"->" not in select.text
            and b"lambda" not in select.text.lower()
        )

    def is_known(self, select: Select) -> bool:
        """Tell whether the functions that a statement calls depend only on their arguments and on what is compared, and
        change nothing.
        """
        known = self._shadow.repeatable | MOMENTS | self.macros.of(self._own(select)).names
        return all(use.name in known for use in select.functions)

    def with_macros(self, draft: Draft) -> Draft:
        """The same with the known macros of the user."""
        return replace(draft, macros=self.macros.of(self._own(draft.select)))

    def comparisons(self, draft: Draft) -> Sequence[str]:
        """Texts that read no table: a session that plans one of them as the shadow does understands the statement as
        the shadow does. Empty where nothing in the statement could be redefined.

        Raises:
            Unpruned: there is no such text.
        """
        if draft.select.plain:
            return ()
        return comparison_texts(draft.select, self._predicates.comparison_text(draft))

    def of(self, draft: Draft, state: DuckDBSessionState, seen: Observations) -> Draft:
        """Return the draft with macros with which the session understands it as the shadow does.

        Args:
            draft: the statement.
            state: the session's settings and plans.
            seen: asks the session.

        Raises:
            Unpruned: there are none.
        """
        draft = self.with_macros(draft)
        try:
            self._compare(draft, state, seen)
        except Unpruned:
            if not self.macros.look(self._own(draft.select), seen.ask_now):
                raise
            seen.passing = True
            draft = self.with_macros(draft)
            self._compare(draft, state, seen)
        return draft

    def _own(self, select: Select) -> frozenset[str]:
        return self.macros.called_by(use.name for use in select.functions)

    def _compare(self, draft: Draft, state: DuckDBSessionState, seen: Observations) -> None:
        texts, macros = () if seen.is_pristine else self.comparisons(draft), draft.macros.definitions
        try:
            require_same_meaning(state, self._shadow, seen.ask, texts, macros)
        except NotPlanned as reason:
            raise Unpruned(f"the DuckDB that plans for the session {reason}") from reason
