"""The requests and responses of the service, as JSON (docs/http.md; `pruner.service.openapi` describes them)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from pruner.expr.wire.nodes import Node


class SqlPredicate(msgspec.Struct, tag_field="form", tag="sql", forbid_unknown_fields=True):
    """A predicate as SQL text in the dialect of the request's engine."""

    text: str


class ExpressionPredicate(msgspec.Struct, tag_field="form", tag="expression", forbid_unknown_fields=True):
    """A predicate in the common expression form."""

    expression: Node


class EnginePredicate(msgspec.Struct, tag_field="form", tag="engine", forbid_unknown_fields=True):
    """A predicate in the native form of the request's engine, which its adapter decodes (Trino: TupleDomain)."""

    content: msgspec.Raw


Predicate: TypeAlias = SqlPredicate | ExpressionPredicate | EnginePredicate


class Session(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The rules that the predicate follows: the fields of `pruner.Semantics` that a client can know."""

    engine: str
    version: str | None = None
    zone: str | None = None
    ansi: bool | None = None
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None
    scan_mode: Literal["snapshot", "read_optimized"] = "snapshot"


class PlanRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A scan to plan.

    `table` is a name or an alias in the configuration, or the base path of a table that it names. `known_snapshot`
    is the `snapshot_id` of an answer whose keys the client already has, so that they need not be sent again. `as_of`
    is the state that is scanned, as `Table.snapshot` takes it; the newest unless given.
    """

    table: str
    session: Session
    predicate: Predicate
    known_snapshot: str | None = None
    as_of: str | None = None


class PlansRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The scans of one query, to be planned together: each is a request that could also be sent alone."""

    scans: list[msgspec.Raw]


class PlanAnswer(msgspec.Struct):
    """The slices that the scan may leave out, bound to one snapshot.

    `snapshot_id` identifies the keys of its slices (`pruner.service.app.SnapshotKeys`). `drop` has a bit for each of
    `total` slices, set where the slice can hold no matching row: within a byte, from the lowest bit up; compressed by
    zlib, in base64. `keys` identifies the file of each ordinal: 16 bytes for each slice (`pruner.service.planning`),
    all in base64; null where the client already knows the snapshot, or there are so many that it should request
    `GET /v1/snapshots/{id}/keys` once. The table was checked at most `staleness_ms` before the request: files that
    were modified since may hold rows that the plan does not know.
    """

    plan_id: str
    table: str
    snapshot_id: str
    total: int
    kept: int
    drop: str
    keys: str | None
    planning_ms: float
    fallbacks: list[str]
    staleness_ms: float


class Aggregate(msgspec.Struct, forbid_unknown_fields=True):
    """An aggregate over all rows of a scan: of a column, or a count of all rows."""

    function: Literal["count", "min", "max"]
    column: Annotated[list[str], msgspec.Meta(min_length=1, max_length=64)] | None = None


class FirstRowsAsked(msgspec.Struct, forbid_unknown_fields=True):
    """The number of first rows in the order of a column; `nulls_first` says whether NULL comes before all values."""

    column: Annotated[list[str], msgspec.Meta(min_length=1, max_length=64)]
    rows: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    descending: bool = False
    nulls_first: bool = False


class AnswersRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A scan, and a question about its rows: aggregates, or a threshold of its first rows.

    `table`, `session`, `predicate` and `as_of` are as in a request for a plan.
    """

    table: str
    session: Session
    predicate: Predicate
    as_of: str | None = None
    aggregates: Annotated[list[Aggregate], msgspec.Meta(max_length=256)] = msgspec.field(
        default_factory=list[Aggregate]
    )
    first: FirstRowsAsked | None = None


class TypedValue(msgspec.Struct):
    """A value: its type as Arrow prints it, the value as in the expression form, dates as days."""

    type: str
    value: bool | int | str | None


class AnswersAnswer(msgspec.Struct):
    """What metadata proves about the rows of a scan.

    `values` has a value for each aggregate, in order; null where a file would have to be read for one of them. At least
    as many rows as were requested have `threshold`, or come before it in the order, NULL aside; null where no such
    value is known, or no file can be left out by it.
    """

    table: str
    told: str
    values: list[TypedValue] | None = None
    threshold: TypedValue | None = None


class ScanAnswer(msgspec.Struct, omit_defaults=True):
    """The result of one of the scans that were requested together, by its position among them, from 0.

    `plan` is present if `status` is 200; otherwise `error` is, in one sentence.
    """

    scan: int
    status: int
    plan: PlanAnswer | msgspec.Raw | None = None
    error: str | None = None


class TableAnswer(msgspec.Struct):
    """One table that the service plans for."""

    name: str
    aliases: list[str]


class FailureAnswer(msgspec.Struct):
    """Why a request was not served, in one sentence."""

    error: str


# Created at import, by one thread: two threads that create the first decoder of a type at once can crash the process.
_PLAN = msgspec.json.Decoder(PlanRequest)
_PLANS = msgspec.json.Decoder(PlansRequest)
_ANSWERS = msgspec.json.Decoder(AnswersRequest)


def decode_request(body: bytes) -> PlanRequest:
    """Return the request in a body.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: it is not a request; the message names the wrong position.
        RecursionError: it is nested too deep.
    """
    return _PLAN.decode(body)


def decode_requests(body: bytes) -> PlansRequest:
    """Return the requests in a body, none of them decoded yet.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: it is not a request for several plans.
        RecursionError: it is nested too deep.
    """
    return _PLANS.decode(body)


def decode_question(body: bytes) -> AnswersRequest:
    """Return the request for answers in a body.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: it is not such a request.
        RecursionError: it is nested too deep.
    """
    return _ANSWERS.decode(body)


def encode(answer: Any) -> bytes:
    """Return an answer as JSON."""
    return msgspec.json.encode(answer)
