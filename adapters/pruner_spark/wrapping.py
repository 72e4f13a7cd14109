"""Puts self-pruning file indexes into Spark's plans."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE, Expr
from pruner_spark.formats import (
    CATALOG_INDEX,
    READ_OPTIMIZED,
    Leaf,
    NotPrunableError,
    format_of,
    leaves_of,
    told_leaves,
)
from pruner_spark.jvm import java_session, session_id
from pruner_spark.relations.agreement import spark_columns
from pruner_spark.relations.relation import PrunedRelation, Shape, sentence
from pruner_spark.relations.scans import Scan
from pruner_spark.tables import identity, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner.catalog.settings import TableSettings
    from pruner_spark.formats import SparkFormat
    from pruner_spark.jvm import JavaSide

PLANNING_SECONDS = 30.0
"""How long a scan waits for its plan before it runs unpruned."""

_OURS = "pruner.spark."
_VALUE_OPTIONS = ("datetimeRebaseMode", "int96RebaseMode")
_SKIPPING = "hoodie.enable.data.skipping"
_KEYS_REASON = (
    "Spark would take a scan that reads less for one of the whole table, and use the rows of either for both: all "
    "files are read, whatever the keys"
)
_LISTINGS = "files"
"""The partition of Hudi's metadata table that skips nothing: it saves directory listings."""
Chooser = Callable[[Leaf], "TableSettings | None"]
"""Gives the table behind a leaf of a plan, or None to leave the leaf unchanged."""


@dataclass(frozen=True, slots=True)
class AnalyzedStatement:
    """A statement that Spark has analyzed (java/statements/Statement.java) and what it reads.

    `leaves` is None for a command that reads nothing. With `is_direct`, replacing relations is all that it needs.
    With `changes`, it is a statement of Delta's that changes rows of `target`.
    """

    spark: SparkSession
    java: Any
    patience: int
    leaves: Sequence[Leaf] | None
    session: str
    is_query: bool
    is_direct: bool
    changes: bool

    @property
    def target(self) -> Any:
        """The table that the statement changes."""
        return self.java.target()

    @property
    def plan(self) -> Any:
        """The analyzed plan."""
        return self.java.plan()

    @property
    def source(self) -> Any:
        """The part of the plan that reads."""
        return self.java.source()

    def pruned(self, chosen: str) -> Any:
        """The part that reads, with self-pruning relations: see `Wrapper.chosen`."""
        return self.java.pruned(chosen, self.patience)

    def frame(self, chosen: str) -> DataFrame:
        """The statement's DataFrame, with self-pruning relations; a command runs at once, as in `spark.sql`."""
        from pyspark.sql import DataFrame

        return DataFrame(self.java.rows(chosen, self.patience), self.spark)


class Wrapper:
    """Wraps the relations of one session's plans."""

    def __init__(self, spark: SparkSession, side: JavaSide, planning_seconds: float) -> None:
        self._spark = spark
        self._side = side
        self._patience = max(1, int(planning_seconds * 1000))

    def told(self, statement: Any, *, uncached: bool = False) -> AnalyzedStatement:
        """Return what Java reports about a statement (java/statements/Statement.java).

        With `uncached`, the parts that Spark has cached stay unchanged: replacing a relation in them would make Spark
        read them again, and the cached rows may be gone or different by now.
        """
        told = json.loads(str(statement.described(uncached)))
        leaves = told_leaves(told["reads"]) if "reads" in told else None
        return AnalyzedStatement(
            self._spark,
            statement,
            self._patience,
            leaves,
            told["session"],
            told["query"],
            told["direct"],
            told["changes"],
        )

    def analyzed(self, plan: Any, *, uncached: bool = False) -> AnalyzedStatement:
        """Return a plan that Spark has already analyzed, as a statement."""
        return self.told(self._side.factory.analyzed(java_session(self._spark), plan), uncached=uncached)

    def chosen(self, statement: AnalyzedStatement, choose: Chooser, keys: Expr = TRUE) -> str:
        """Return, for Java, which relations of a statement prune themselves: those for which `choose` gives a table.

        With `keys`, they read the file groups that can hold a row for which the keys are true, whatever Spark pushes
        down to the scan.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
            PrunerError: the file index does not fit the running Spark.
        """
        known = _remembering(choose)
        leaves = statement.leaves or ()
        numbers = {leaf.position: self._number(leaf, known, keys, statement.session) for leaf in leaves}
        mark = "" if keys == TRUE else "\tkeys"
        return "\n".join(f"{place}\t{name}{mark}" for place, name in numbers.items() if name is not None)

    def wrap(self, plan: Any, choose: Chooser, keys: Expr) -> Any:
        """Return an analyzed plan whose relations prune themselves: see `chosen`.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
            PrunerError: the file index does not fit the running Spark.
        """
        analyzed = self.analyzed(plan)
        chosen = self.chosen(analyzed, choose, keys)
        return analyzed.pruned(chosen) if chosen else plan

    def knows(self, plan: Any, choose: Chooser) -> bool:
        """Tell whether `choose` gives a table for any relation in a plan.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
        """
        return any(choose(leaf) is not None for leaf in leaves_of(self._side.factory.relations(plan)))

    def leave(self, plan: Any, choose: Chooser, reason: str) -> None:
        """Record, for each indexed relation in a plan, why it is read unpruned.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
        """
        for leaf in leaves_of(self._side.factory.relations(plan)):
            if (settings := choose(leaf)) is not None:
                self._side.log.add(session_id(self._spark), Scan(_name(settings), None, reason))

    def frame(self, plan: Any) -> DataFrame:
        """Return the DataFrame of a plan; a command runs at once, as in `spark.sql`."""
        from pyspark.sql import DataFrame

        # The plan is already analyzed: analyzing it again, under the current settings, could change its meaning.
        plan.setAnalyzed()
        return DataFrame(self._side.factory.rows(java_session(self._spark), plan), self._spark)

    def _number(self, leaf: Leaf, choose: Chooser, keys: Expr, session: str) -> str | None:
        """Return the planner's name for what a leaf reads and how; None where the leaf stays unchanged."""
        if leaf.index.startswith(_OURS):
            return None
        settings = choose(leaf)
        if settings is None:
            return None
        try:
            return self._planned(format_of(leaf), leaf, settings, keys, session)
        except PrunerError as error:
            self._side.log.add(session, Scan(_name(settings), None, sentence(error)))
            return None

    def _planned(
        self, read_as: SparkFormat, leaf: Leaf, settings: TableSettings, keys: Expr, session: str
    ) -> str:
        table = opened(settings)
        if table.format != read_as.name:
            raise NotPrunableError(
                f"{table.uri} is a {table.format} table, which Spark reads as something else"
            )
        if read_as.switch is not None and self._spark.conf.get(read_as.switch[0], "true") == "false":
            raise NotPrunableError(" ".join(read_as.switch))
        if keys != TRUE and not read_as.takes_keys:
            raise NotPrunableError(_KEYS_REASON)
        shape = self._shape(read_as, leaf)
        notes = _notes(leaf)
        pruned = PrunedRelation(_name(settings), table, shape, session, self._side.slices, notes, keys)
        key = (session, leaf.reader, identity(settings), repr(shape), notes, keys)
        return self._side.planner.name_of(key, pruned)

    def _shape(self, read_as: SparkFormat, leaf: Leaf) -> Shape:
        # Where scans report their version, the relation need not.
        as_of = None if read_as.as_of_version else leaf.options.get(read_as.as_of_option or "")
        return Shape(
            read_as=read_as,
            columns=spark_columns(
                json.loads(leaf.data_schema),
                json.loads(leaf.partition_schema),
                catalogued=leaf.index == CATALOG_INDEX,
            ),
            mode="read_optimized" if leaf.query_type == READ_OPTIMIZED else "snapshot",
            as_of=None if as_of is None else self._side.hudi_instant(as_of),
            options=tuple(sorted((key, leaf.options[key]) for key in _VALUE_OPTIONS if key in leaf.options)),
        )


def _remembering(choose: Chooser) -> Chooser:
    """The same chooser, called once for all leaves with the same names and roots."""
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], TableSettings | None] = {}

    def remembered(leaf: Leaf) -> TableSettings | None:
        key = (leaf.names, leaf.roots)
        if key not in known:
            known[key] = choose(leaf)
        return known[key]

    return remembered


def _notes(leaf: Leaf) -> tuple[str, ...]:
    """Notes for plans over a leaf, besides what they could not use."""
    indexes = [name for name in leaf.hudi_indexes if name != _LISTINGS]
    if not indexes or leaf.options.get(_SKIPPING, "true").strip().lower() == "false":
        return ()
    return (
        f"Hudi's own data skipping ({', '.join(indexes)}) is off, as it lost rows in Hudi 1.2: pruner leaves files "
        "out, by what it believes of these indexes and by its own",
    )


def _name(settings: TableSettings) -> str:
    return settings.name or settings.uris[0]
