"""Answers the file indexes of one Java machine: what Java calls when a scan runs."""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar

from pruner.errors import PrunerError
from pruner.expr.nodes import TRUE
from pruner_spark.relations.relation import Asked, TooLateError
from pruner_spark.relations.scans import LOGGER, Scan, ScanLog

if TYPE_CHECKING:
    from pruner_spark.relations.relation import PrunedRelation

KNOWN_KEYS = 256
"""Relations among them whose scans are given keys, which take memory."""

KNOWN_RELATIONS = 4096
"""Relations that a Java machine may prune; the one that was used longest ago goes first and runs unpruned then."""


class Planner:
    """Plans scans by the names of their relations. Threads may share it: each scan comes on one of Java's."""

    def __init__(self, log: ScanLog) -> None:
        self._log = log
        self._lock = Lock()
        self._names: dict[object, str] = {}
        self._relations: OrderedDict[str, tuple[object, PrunedRelation]] = OrderedDict()
        self._count = 0

    def name_of(self, key: object, relation: PrunedRelation) -> str:
        """Return the name by which Java asks for a relation; equal keys are one relation, the first given."""
        with self._lock:
            name = self._names.get(key)
            if name is None:
                if len(self._relations) >= KNOWN_RELATIONS:
                    self._forget(next(iter(self._relations)))
                if relation.keys != TRUE:
                    keyed = [known for known, (_, each) in self._relations.items() if each.keys != TRUE]
                    if len(keyed) >= KNOWN_KEYS:
                        self._forget(keyed[0])
                self._count += 1
                name = self._names[key] = str(self._count)
                self._relations[name] = (key, relation)
            return name

    def _forget(self, name: str) -> None:
        forgotten, _ = self._relations.pop(name)
        del self._names[forgotten]

    def apply(self, scan: Any, message: Any) -> None:
        """Plan a scan of Java's (java/scans/Scan.java), or take note of one without a plan (java/scans/Call.java).

        Never raises: nothing is dropped then.
        """
        try:
            self._answer(scan, str(message))
        except (
            Exception
        ) as error:  # of a failing connection, or a relation forgotten: nobody to record it with
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
            scan = relation.prune(Asked(java_scan, text))
        except TooLateError:
            return  # Java has said already that it waited too long
        except BaseException as error:  # panics of Rust code are no Exceptions
            scan = Scan(relation.name, None, f"planning failed: {sentence(error)}")
        seconds = time.perf_counter() - started
        finished = replace(scan, seconds=seconds, number=int(number), notes=relation.notes)
        self._log.add(relation.session, finished)

    class Java:
        """What py4j is to take the object for."""

        implements: ClassVar[list[str]] = ["java.util.function.BiFunction"]


def sentence(error: BaseException) -> str:
    """The first line of an error, Java's where it came from there, with its kind where it says nothing."""
    cause: Any = getattr(error, "java_exception", None)
    text = str(error if cause is None else cause.toString()).strip().split("\n", 1)[0].rstrip(". ")
    return text or type(error).__name__
