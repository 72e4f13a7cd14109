"""One table as Spark reads it, and the planner of one JVM, which Java calls when a scan runs."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.adapters import switched_off
from pruner.arrow import compute
from pruner.errors import PrunerError, TableError
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.walk import without_columns
from pruner_spark.catalyst.decode import decode
from pruner_spark.catalyst.source import ExpressionJson, Later
from pruner_spark.relations.agreement import SparkColumn, differing, renumbered, schema_as_read
from pruner_spark.relations.scans import LOGGER, Scan, ScanLog
from pruner_spark.relations.shortcuts import may_gain, shortcut, threshold
from pruner_spark.session import SessionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pruner import PinnedSnapshot, Plan, Table
    from pruner.expr.semantics import ScanMode
    from pruner.schema import TableSchema
    from pruner.tables.snapshot import Snapshot
    from pruner_spark.formats import SparkFormat

# Slice keys: they identify a slice, and are written identically here and in java/indexes/SliceKeys.java.

_UNSPEAKABLE = r"[\t\n\r]"


def slice_lines(snapshot: Snapshot, *, base_files_only: bool) -> str:
    """Return the key of each slice on a line of its own, in the order of the snapshot.

    A key is the base file's path and size, the names of the log files in order and their total size, separated by
    tabs. Slices that cannot be identified in this way have an empty line: they are never dropped.

    Args:
        snapshot: the planner's snapshot.
        base_files_only: leave out the log files, as a read-optimized scan does.
    """
    columns: Any = snapshot.columns
    paths = columns.column("base_file")
    sizes = columns.column("base_size").fill_null(0).cast(pa.string())
    logs = columns.column("log_files")
    log_sizes = columns.column("log_size").fill_null(0).cast(pa.string())
    if base_files_only:
        names = pa.array([""] * len(snapshot), pa.string())
        log_sizes = pa.array(["0"] * len(snapshot), pa.string())
    else:
        names = _log_names(snapshot, logs)
    keys = compute.binary_join_element_wise(compute.fill_null(paths, ""), sizes, names, log_sizes, "\t")
    readable = ~compute.match_substring_regex(compute.fill_null(paths, ""), _UNSPEAKABLE).to_numpy(
        zero_copy_only=False
    )
    if base_files_only:
        readable &= paths.is_valid().to_numpy(zero_copy_only=False)
    return "\n".join(compute.if_else(pa.array(readable), keys, "").to_pylist())


def _log_names(snapshot: Snapshot, logs: Any) -> pa.Array[Any]:
    """The names of each slice's log files, in order, separated by slashes."""
    names = np.full(len(snapshot), "", dtype=object)
    for ordinal in np.flatnonzero(snapshot.has_logs):
        uris: list[str] = logs[int(ordinal)].as_py()
        names[ordinal] = "/".join(sorted(uri.rsplit("/", 1)[-1] for uri in uris))
    return pa.array(names, pa.string())


KEPT_SNAPSHOTS = 4
"""Snapshots of one relation whose slices are kept in the JVM."""

_READ_OTHERWISE = "Spark reads the column differently from the index"

SlicesInJava: TypeAlias = "Callable[[str, int], Any]"
"""Sends the slices of a snapshot to the JVM: their keys, one per line, and their number."""


class TooLateError(PrunerError):
    """Spark no longer waits for the plan of a scan."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How Spark reads the table.

    `as_of` is the instant of time travel; `options` are the relation's options that change how values are read.
    """

    read_as: SparkFormat
    columns: tuple[SparkColumn, ...]
    mode: ScanMode = "snapshot"
    as_of: str | None = None
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PendingScan:
    """A scan that needs a plan (java/scans/Scan.java), and its description (java/scans/Asked.java)."""

    java: Any
    text: str


class PrunedRelation:
    """A table as one kind of relation of one session reads it. Threads may share it."""

    def __init__(
        self,
        name: str,
        table: Table,
        shape: Shape,
        session: str,
        slices_in_java: SlicesInJava,
        notes: tuple[str, ...] = (),
        keys: Expr = TRUE,
    ) -> None:
        """Describe how a table is read.

        Scans are logged under `session`, each with the notes. With `keys`, each scan reads all rows of the slices that
        can hold a row for which the keys are true, whatever the scan's own predicate, as that may be about other rows
        of these slices.
        """
        self.name = name
        self.table = table
        self.shape = shape
        self.session = session
        self.notes = notes
        self.keys = keys
        self._slices_in_java = slices_in_java
        self._lock = Lock()
        self._slices: OrderedDict[str, Any] = OrderedDict()

    def prune(self, scan: PendingScan) -> Scan | None:
        """Plan a scan and drop the files that cannot hold a matching row.

        None where Java only asks for a threshold in advance: the scan comes later.

        Raises:
            PrunerError, Py4JError: planning is not possible; nothing was dropped.
        """
        java_scan, asked = scan.java, json.loads(scan.text)
        told = ExpressionJson(asked["expression"], asked["columns"]) if "expression" in asked else None
        # Few predicates need more than their JSON.
        predicate = java_scan.predicate() if told is None else Later(java_scan.predicate)
        state = SessionState.from_settings(asked)
        plan = partial(self.plan, predicate, state, told=told, ids=asked.get("ids"))
        first = plan(self._snapshot(asked.get("pinned")))
        question = asked.get("question", {})
        if "threshold" in question:
            self._tell(first, java_scan, question, asked.get("ids"))
            return None
        if question and self.keys == TRUE and not switched_off():
            answered = self._answer(first, partial(self._beyond, state, java_scan), java_scan, question)
            if answered is not None:
                return answered
        pruned = self._apply(first, java_scan)
        if pruned.files_unknown and self.shape.as_of is None and self.shape.read_as.keeps_files:
            # The relation may have been resolved before the newest commit: its slices are of an earlier instant.
            return self._apply_past(plan, java_scan, pruned)
        return pruned

    def _snapshot(self, scanned: str | None) -> PinnedSnapshot:
        """The snapshot to plan over: the newest, that of time travel, or that of the version that is scanned.

        Raises:
            TableError: the table has no such version.
            StorageError: it cannot be read.
        """
        newest = self.table.snapshot(self.shape.as_of)
        if scanned is None or newest.data.version == scanned:
            return newest
        past = self.table.snapshot(scanned.rpartition(" ")[2])
        if past.data.version == scanned:
            return past
        raise TableError("Spark scans a table that lay here before, which is not the one that lies here now")

    def plan(
        self,
        predicate: Any,
        state: SessionState,
        pinned: PinnedSnapshot,
        told: ExpressionJson | None = None,
        ids: Mapping[str, int] | None = None,
    ) -> Plan:
        """Plan a Catalyst predicate, None for none, by the rules of the session that reads the files.

        `ids` are the field ids by which a scan finds its columns in files, where it reports them.
        """
        rules = state.semantics(self.shape.mode)
        snapshot = pinned.with_filled_in(
            frozenset(column.name.lower() for column in self.shape.columns if column.filled_in)
        )
        schema = schema_as_read(snapshot.schema, rules)
        expression = self.keys
        if expression == TRUE and predicate is not None:
            expression = decode(predicate, state, schema, told)
        names = self._differing(schema) | renumbered(ids or {}, schema)
        return snapshot.plan(_trusted(expression, names), semantics=rules)

    def _apply(self, plan: Plan, java_scan: Any) -> Scan:
        # A relation that keeps its files can be older than the snapshot; then it lists files that the snapshot lacks.
        if plan.kept == plan.total and not self.shape.read_as.keeps_files:
            return Scan(self.name, plan, switched_off())
        drop = np.packbits(~plan.kept_mask, bitorder="little").tobytes()
        counted = self._dropped(str(java_scan.drop(self._java_slices(plan.snapshot), drop)))
        return Scan(self.name, plan, switched_off(), *counted)

    def _beyond(self, state: SessionState, java_scan: Any) -> Plan | None:
        """The plan without conditions on partitions alone, where only Spark knows their values; None elsewhere.

        These conditions hold for every file that Spark lists.
        """
        pinned = self.table.snapshot(self.shape.as_of)
        names = self._differing(pinned.schema)
        if not any(column.partition and column.name.lower() in names for column in self.shape.columns):
            return None
        return self.plan(java_scan.beyond(), state, pinned)

    def _answer(
        self, plan: Plan, beyond: Callable[[], Plan | None], java_scan: Any, question: Mapping[str, Any]
    ) -> Scan | None:
        """Leave out what an answer makes unnecessary to read, and pass on the answer; None where nothing is gained.

        Answers are about the files that Spark lists: other files of the snapshot contribute no rows here.
        """
        asked: Plan | None = plan
        if not may_gain(question, plan):
            asked = beyond() if plan.kept else None
            if asked is None or asked.snapshot_id != plan.snapshot_id or not may_gain(question, asked):
                return None
        slices = self._java_slices(plan.snapshot)
        listed = self._listed_once(plan, java_scan, slices)
        answer = shortcut(question, asked.among(listed), self._is_as_indexed(plan))
        if answer is None:
            return None
        # Slices that are listed twice are in no answer, and are read.
        kept = answer.left.kept_mask | (asked.kept_mask & ~listed)
        drop = np.packbits(~kept, bitorder="little").tobytes()
        counted = self._dropped(str(java_scan.drop(slices, drop, answer.proved)))
        nothing = counted[0] == counted[2]
        read = (0, 0) if nothing else (None, None)
        return Scan(self.name, plan, None, *counted, files_left=read[0], files_read=read[1], left=answer.left)

    def _tell(
        self, plan: Plan, java_scan: Any, question: Mapping[str, Any], ids: Mapping[str, int] | None
    ) -> None:
        """Report a value that none of the first rows of the listed files come after, and leave out no file."""
        other = question["column"].lower() in renumbered(ids or {}, plan.schema)
        if other or self.keys != TRUE or switched_off() or not plan.is_understood:
            return
        slices = self._java_slices(plan.snapshot)
        listed = self._listed_once(plan, java_scan, slices)
        told = threshold(question, plan.among(listed), self._is_as_indexed(plan))
        if told is not None:
            nothing = np.zeros((plan.total + 7) // 8, np.uint8).tobytes()
            self._dropped(str(java_scan.drop(slices, nothing, told)))

    def _listed_once(self, plan: Plan, java_scan: Any, slices: Any) -> NDArray[np.bool_]:
        """The slices that Spark lists exactly once.

        Raises:
            TooLateError: Spark no longer waits.
        """
        once = java_scan.listedOnce(slices)
        if once is None:
            raise TooLateError("the plan arrived after the timeout")
        bits = np.frombuffer(bytes(once), np.uint8)
        return np.unpackbits(bits, count=plan.total, bitorder="little").astype(np.bool_)

    def _is_as_indexed(self, plan: Plan) -> Callable[[str], bool]:
        """A function that tells whether Spark reads a column in all files as the indexes did."""
        names = self._differing(schema_as_read(plan.schema, plan.semantics))
        filled = {column.name.lower() for column in self.shape.columns if column.filled_in}
        return lambda name: name.lower() not in names and name.lower() not in filled

    def _dropped(self, answer: str) -> tuple[int, int, int]:
        """The numbers of files that were listed, are unknown, and were left out.

        Raises:
            TooLateError: Spark no longer waits.
        """
        if answer == "closed":
            raise TooLateError("the plan arrived after the timeout")
        listed, unknown, dropped = map(int, answer.split(" "))
        return listed, unknown, dropped

    def _apply_past(self, plan: Callable[[PinnedSnapshot], Plan], java_scan: Any, scan: Scan) -> Scan:
        instant = java_scan.index().getLatestCompletedInstant()
        if not instant.isPresent():
            return scan
        text = str(instant.get().requestedTime())
        try:
            snapshot = self.table.snapshot(text)
        except PrunerError as error:
            reason = f"{scan.files_unknown} listed files are not in the newest snapshot, and: {error}"
            return Scan(
                self.name, scan.plan, reason, scan.files_listed, scan.files_unknown, scan.files_dropped
            )
        past = self._apply(plan(snapshot), java_scan)
        dropped = (scan.files_dropped or 0) + (past.files_dropped or 0)
        return Scan(self.name, past.plan, None, scan.files_listed, past.files_unknown, dropped)

    def _differing(self, schema: TableSchema) -> frozenset[str]:
        return differing(self.shape.columns, schema, paths_matter=self.shape.read_as.types_folders)

    def _java_slices(self, snapshot: Snapshot) -> Any:
        """The slices of a snapshot in the JVM, sent there once."""
        with self._lock:
            known = self._slices.get(snapshot.id)
        if known is not None:
            return known
        lines = slice_lines(snapshot, base_files_only=self.shape.mode == "read_optimized")
        made = self._slices_in_java(lines, len(snapshot))
        with self._lock:
            while len(self._slices) >= KEPT_SNAPSHOTS:
                self._slices.popitem(last=False)
            self._slices[snapshot.id] = made
        return made


def _trusted(expression: Expr, names: frozenset[str]) -> Expr:
    """The predicate without conditions on columns that Spark reads differently from the index."""
    return without_columns(expression, lambda column: column.path[0].lower() in names, _READ_OTHERWISE)


KNOWN_KEYS = 256
"""Most relations whose scans are given keys, which take memory; they are among the `KNOWN_RELATIONS`."""

KNOWN_RELATIONS = 4096
"""Relations that a JVM may prune; the least recently used one is forgotten first, and then runs unpruned."""


class RelationPlanner:
    """Plans scans by the names of their relations. Threads may share it: each scan arrives on a Java thread."""

    def __init__(self, log: ScanLog) -> None:
        self._log = log
        self._lock = Lock()
        self._names: dict[object, str] = {}
        self._relations: OrderedDict[str, tuple[object, PrunedRelation]] = OrderedDict()
        self._count = 0

    def name_of(self, key: object, relation: PrunedRelation) -> str:
        """Return the name by which Java refers to a relation; equal keys denote one relation, the first given."""
        with self._lock:
            name = self._names.get(key)
            if name is None:
                if len(self._relations) >= KNOWN_RELATIONS:
                    self._forget(next(iter(self._relations)))
                if relation.keys != TRUE:
                    keyed = [
                        known for known, (_, relation) in self._relations.items() if relation.keys != TRUE
                    ]
                    if len(keyed) >= KNOWN_KEYS:
                        self._forget(keyed[0])
                self._count += 1
                # Scans with keys leave out files by themselves: java/scans/Pruning.java.
                prefix = "" if relation.keys == TRUE else "keys-"
                name = self._names[key] = f"{prefix}{self._count}"
                self._relations[name] = (key, relation)
            return name

    def _forget(self, name: str) -> None:
        forgotten, _ = self._relations.pop(name)
        del self._names[forgotten]

    def apply(self, scan: Any, message: Any) -> None:
        """Plan a scan of Java's (java/scans/Scan.java), or record one without a plan (java/scans/Call.java).

        Never raises: after an error, nothing is dropped.
        """
        try:
            self._answer(scan, str(message))
        except (
            Exception
        ) as error:  # a failing connection, or a forgotten relation: there is no session to record it under
            LOGGER.warning("a scan is not pruned: %s", sentence(error))

    def _answer(self, java_scan: Any, message: str) -> None:
        name, number, text = message.split("\t", 2)
        with self._lock:
            if name not in self._relations:
                raise PrunerError("its relation is no longer remembered, because many others were read since")
            self._relations.move_to_end(name)
            relation = self._relations[name][1]
        if java_scan is None:
            counted = (None, None, None) if text else (0, 0, 0)
            without = Scan(
                relation.name, None, text or None, *counted, number=int(number), notes=relation.notes
            )
            self._log.add(relation.session, without)
            return
        started = time.perf_counter()
        try:
            scan = relation.prune(PendingScan(java_scan, text))
        except TooLateError:
            return  # Java has already reported that it waited too long
        except BaseException as error:  # panics of Rust code are not Exceptions
            scan = Scan(relation.name, None, f"planning failed: {sentence(error)}")
        if scan is None:
            return
        seconds = time.perf_counter() - started
        finished = replace(scan, seconds=seconds, number=int(number), notes=relation.notes)
        self._log.add(relation.session, finished)

    class Java:
        """The Java interface that py4j exposes the object as."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


def sentence(error: BaseException) -> str:
    """The first line of an error's message, Java's for a Java error, or the error's class if it has no message."""
    cause: Any = getattr(error, "java_exception", None)
    text = str(error if cause is None else cause.toString()).strip().split("\n", 1)[0].rstrip(". ")
    return text or type(error).__name__
