"""Trino's predicate of a scan, as the plugin sends it, in the common expression form."""

from __future__ import annotations

from collections.abc import Iterator

from pruner.errors import PredicateError
from pruner.expr.nodes import FALSE, TRUE, Expr, conjunction
from pruner.expr.semantics import Semantics
from pruner_trino.domains import column_domain
from pruner_trino.expressions import Expressions
from pruner_trino.messages import ColumnDomain, Content, TupleDomain, read_content, survey
from pruner_trino.values import NotUnderstood


def decode_request(content: bytes, semantics: Semantics) -> Expr:
    """Decode the predicate of one scan.

    Args:
        content: the JSON that docs/trino-predicates.md describes.
        semantics: whose rules the predicate follows; the engine must be Trino.

    Returns:
        All domains and the expression, AND-ed; each part that is not understood is an `Opaque` with the reason.

    Raises:
        PredicateError: the content has another shape, names columns that it does not have, or is for another engine.
    """
    if semantics.engine != "trino":
        raise PredicateError(
            f"a predicate in Trino's form was sent for {semantics.engine}: set the engine to trino"
        )
    found = read_content(content)
    _require_columns(found)
    decoder = Expressions(found.columns)
    parts = [part for domain in found.domains for part in _domain(domain, decoder)]
    if found.expression is not None:
        parts.append(decoder.predicate(found.expression))
    return conjunction(tuple(dict.fromkeys(part for part in parts if part != TRUE)))


def _domain(domain: TupleDomain, decoder: Expressions) -> Iterator[Expr]:
    if domain.none:
        yield FALSE
    for each in domain.columns:
        yield decode_domain(each, decoder)


def decode_domain(domain: ColumnDomain, decoder: Expressions) -> Expr:
    """Decode the domain of one column; one that is not understood is an `Opaque`."""
    try:
        column = decoder.column(domain.column)
        return column_domain(column, domain.values, null_allowed=domain.null_allowed)
    except NotUnderstood as reason:
        text = f"a domain of {decoder.name(domain.column)}"
        return decoder.opaque([domain.column], text, str(reason))


def _require_columns(content: Content) -> None:
    """Every id must be that of a column: a part about nothing would be a misunderstanding of the whole."""
    named = [each.column for domain in content.domains for each in domain.columns]
    if content.expression is not None:
        named += survey(content.expression)[0]
    missing = sorted(set(named) - content.columns.keys())
    if missing:
        raise PredicateError(
            f"the predicate names the column {missing[0][:60]!r}, which `columns` does not have"
        )
