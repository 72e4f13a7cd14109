"""The settings of a Spark session that change the meaning of a predicate, or of the files it is applied to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pruner.expr.semantics import BINARY_COLLATION, ScanMode, Semantics

if TYPE_CHECKING:
    from collections.abc import Mapping

_BINARY_COLLATION = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class SessionState:
    """A snapshot of the session's rules.

    `by_field_id` tells that columns are looked up in files by their Parquet field id; `list_threshold` is the length
    up to which IN lists arrive as expressions. The calendar of old dates is not here: for files that leave the
    calendar to the session, Spark is never given evidence about such dates.
    """

    version: str
    zone: str
    ansi: bool
    case_sensitive: bool = False
    collation: str = BINARY_COLLATION
    by_field_id: bool = False
    list_threshold: int = 10

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> SessionState:
        """The rules that java/scans/Asked.java reports."""
        collation = str(settings["collation"])
        return cls(
            version=str(settings["version"]),
            zone=str(settings["zone"]),
            ansi=bool(settings["ansi"]),
            case_sensitive=bool(settings["case_sensitive"]),
            collation=BINARY_COLLATION if collation == _BINARY_COLLATION else collation,
            by_field_id=bool(settings["by_field_id"]),
            list_threshold=int(settings["list_threshold"]),
        )

    @property
    def collates(self) -> bool:
        """Tell whether columns may have a collation in this Spark: from version 4 on."""
        return int(self.version.partition(".")[0]) >= 4

    def semantics(self, scan_mode: ScanMode = "snapshot") -> Semantics:
        """The rules that a predicate of this session follows."""
        return Semantics(
            engine="spark",
            version=self.version,
            zone=self.zone,
            ansi=self.ansi,
            case_sensitive=self.case_sensitive,
            collation=self.collation,
            scan_mode=scan_mode,
        )
