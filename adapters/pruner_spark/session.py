"""What changes the meaning of a predicate, or of the files that it is asked of, in a Spark session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pruner.expr.semantics import BINARY_COLLATION, ScanMode, Semantics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BINARY_COLLATION = "UTF8_BINARY"


@dataclass(frozen=True, slots=True)
class SessionState:
    """The session's rules, as they stood when they were asked for.

    `by_field_id` tells that columns are looked up in files by their Parquet field id; `list_threshold` is the length
    up to which IN lists arrive as expressions. Which calendar old dates are read by is not here: evidence about files
    that leave that to the session never speaks of such dates to Spark.
    """

    version: str
    zone: str
    ansi: bool
    case_sensitive: bool = False
    collation: str = BINARY_COLLATION
    by_field_id: bool = False
    list_threshold: int = 10

    @classmethod
    def of(cls, spark: SparkSession) -> SessionState:
        """Ask the session that runs a query for its rules."""
        return cls.of_java(spark._jsparkSession)  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]

    @classmethod
    def of_java(cls, session: Any) -> SessionState:
        """Ask a session of Java's for its rules."""
        settings: Any = session.sessionState().conf()

        def setting(key: str, default: str) -> str:
            return str(settings.getConfString(key, default))

        version = str(session.version())
        collation = setting("spark.sql.session.collation.default", _BINARY_COLLATION)
        return cls(
            version=version,
            zone=str(settings.sessionLocalTimeZone()),
            ansi=bool(settings.ansiEnabled()),
            case_sensitive=bool(settings.caseSensitiveAnalysis()),
            collation=BINARY_COLLATION if collation == _BINARY_COLLATION else collation,
            by_field_id=bool(settings.parquetFieldIdReadEnabled()),
            list_threshold=int(setting("spark.sql.optimizer.inSetConversionThreshold", "10")),
        )

    @property
    def collates(self) -> bool:
        """Tell whether columns of this Spark may have a collation: from version 4 on."""
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
