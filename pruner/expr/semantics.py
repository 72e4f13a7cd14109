"""Whose rules a predicate follows.

The same text can mean different things: in Spark and DuckDB NaN is greater than every number, in Trino it compares
false; a timestamp without a zone becomes an instant by the session's zone. Every predicate carries a `Semantics`, and
everything that depends on an engine consults it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeAlias, cast
from typing import Literal as OneOf

from pruner.expr.engines import REFERENCE_ENGINE, NanOrder, Origin, Traits, traits_of

__all__ = ["BINARY_COLLATION", "Engine", "NanOrder", "ScanMode", "Semantics"]

Engine: TypeAlias = str
"""Name of an engine: a key of `pruner.expr.engines.ENGINES`, or the engine of an installed adapter."""

ScanMode = OneOf["snapshot", "read_optimized"]

BINARY_COLLATION = "binary"
"""Strings compare by their UTF-8 bytes, unsigned: the default of all three engines."""

OF_ENGINE: Final = cast("NanOrder", None)
"""Replaced by the order of the engine, so that no field of a `Semantics` is None by its type alone."""


@dataclass(frozen=True)
class Semantics:
    """The rules of one engine, session and kind of read.

    `zone` is the session's time zone (an IANA name or a fixed offset such as "+02:00"); None means that it is unknown,
    and comparisons that depend on it are widened to hold in every zone. `ansi` is Spark's ANSI mode. `nan_order` is the
    engine's unless given.
    `timestamp_unit` is the precision to which the engine rounds timestamps when it reads them. `now` is the earliest
    possible value of `now()` in the statement, in nanoseconds since 1970 in UTC; None means the time of planning.
    `latest` is its latest possible value, None where no upper bound is guaranteed.
    `shared_partition_columns` says where a column that is both in the path and in the files takes its value from (trap
    N6), if the author of the scan decides that; None means that the engine decides.
    """

    engine: Engine = REFERENCE_ENGINE
    version: str | None = None
    zone: str | None = None
    ansi: bool | None = None
    case_sensitive: bool = False
    collation: str = BINARY_COLLATION
    nan_order: NanOrder = OF_ENGINE
    timestamp_unit: OneOf["s", "ms", "us", "ns"] | None = None
    scan_mode: ScanMode = "snapshot"
    now: int | None = None
    latest: int | None = None
    shared_partition_columns: Origin | None = None

    def __post_init__(self) -> None:
        """Take the order of NaN from the engine unless it was given.

        Raises:
            PredicateError: there is no such engine.
        """
        if cast("NanOrder | None", self.nan_order) is None:
            object.__setattr__(self, "nan_order", self.traits.nan_order)

    @staticmethod
    def of(dialect: str) -> Semantics:
        """Default semantics of an engine by its name.

        Raises:
            PredicateError: there is no such engine.
        """
        return _defaults(dialect)

    @cached_property
    def traits(self) -> Traits:
        """What the engine does where engines differ.

        Raises:
            PredicateError: there is no such engine.
        """
        return traits_of(self.engine)


@lru_cache(maxsize=64)
def _defaults(engine: Engine) -> Semantics:
    return Semantics(engine)
