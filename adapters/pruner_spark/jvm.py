"""The part of the adapter that runs in Spark's JVM: compiled there when a session first needs it.

Janino, the compiler that Spark itself uses for the code of every query, is always on its class path. So the
file index is a few short Java classes (`java/`), no jar has to be built or shipped, and the classes are compiled
against the very Spark and Hudi that run.
"""

from __future__ import annotations

import json
from functools import cached_property
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError
from pruner_spark.relations.relation import RelationPlanner, sentence
from pruner_spark.relations.scans import ScanLog
from pruner_spark.session import SessionState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from pyspark.sql import SparkSession

    from pruner_spark.relations.scans import Scan

PACKAGE = "pruner.spark"
_SEQ = "$SEQ$"
_SQL = "org.apache.spark.sql"
_HUDI_PROPERTIES = ".hoodie/hoodie.properties"
_PATIENCE = 1_000
"""Milliseconds within which Spark must report the queries that have ended."""


class JavaSide:
    """The compiled classes in one JVM."""

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.log = ScanLog()
        self.planner = RelationPlanner(self.log)
        self._lock = Lock()
        self._factory: Any = None

    @property
    def factory(self) -> Any:
        """An instance of the class `Factory` (java/Factory.java), which holds the planner.

        Raises:
            PrunerError: the classes do not fit the running Spark.
        """
        from pyspark import java_gateway

        # Spark's own function: it leaves a running server alone.
        start: Any = getattr(java_gateway, "ensure_callback_server_started")  # noqa: B009  (untyped)
        start(self.gateway)
        with self._lock:
            if self._factory is None:
                factory = self._compiled()
                factory.plannedBy(self.planner)
                self._factory = factory
            return self._factory

    def _compiled(self) -> Any:
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

        jvm = self.gateway.jvm
        try:
            sources = jvm.java.util.HashMap()
            for name, text in self._sources().items():
                sources.put(name, text.encode())
            finder = jvm.org.codehaus.commons.compiler.util.resource.MapResourceFinder(sources)
            parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
            loader = jvm.org.codehaus.janino.JavaSourceClassLoader(parent, finder, "UTF-8")
            class_ = loader.loadClass(f"{PACKAGE}.Factory")
            nothing = self.gateway.new_array(jvm.java.lang.Class, 0)
            return class_.getConstructor(nothing).newInstance(self.gateway.new_array(jvm.java.lang.Object, 0))
        except Py4JError as error:
            raise PrunerError(f"the file index does not fit this Spark: {sentence(error)}") from None

    def _class(self, name: str) -> Any:
        """Return a class of Spark's; py4j would first look up each part of `jvm.org.apache…` as a class (2 ms)."""
        from py4j.java_gateway import JavaClass  # pyright: ignore[reportMissingTypeStubs]

        return JavaClass(name, self.gateway._gateway_client)

    @cached_property
    def _modes(self) -> Any:
        return self._class(f"{_SQL}.execution.CommandExecutionMode")

    def slices(self, lines: str, count: int) -> Any:
        """Return the slices of a snapshot, by key; see java/scans/Slices.java."""
        return self.factory.slices(lines, count)

    def scans(self, spark: SparkSession) -> list[Scan]:
        """Return the newest scans of a session, oldest first, with what they read as far as Spark has reported it."""
        session = session_id(spark)
        if self._factory is not None:
            self.factory.told(_PATIENCE)
        if self.log.open_scans(session):
            told = str(self.factory.filesRead(java_session(spark).sparkContext(), _PATIENCE))
            lines = (line.split("\t") for line in told.splitlines())
            self.log.read({int(number): (int(left), int(read)) for number, left, read in lines})
        return self.log.scans(session)

    def execution(self, session: Any, plan: Any) -> Any:
        """Return the execution of an analyzed plan, which has not run yet."""
        return session.sessionState().executePlan(plan, self._modes.ALL())

    def hudi_instant(self, text: str) -> str:
        """Return the timeline instant, of 17 digits, that a time-travel text denotes."""
        hudi = self.gateway.jvm.org.apache.spark.sql.hudi
        return str(hudi.HoodieSqlCommonUtils.formatQueryInstant(text))

    def has_class(self, name: str) -> bool:
        """Tell whether a class is on Spark's class path."""
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

        loader = self.gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        try:
            loader.loadClass(name)
        except Py4JError:
            return False
        return True

    def is_hudi(self, spark: SparkSession, place: str) -> bool:
        """Tell whether a path is the root of a Hudi table in the store as Spark opens it; False where that fails."""
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

        try:
            path = self._class("org.apache.hadoop.fs.Path")(f"{place.rstrip('/')}/{_HUDI_PROPERTIES}")
            configuration = java_session(spark).sessionState().newHadoopConf()
            return bool(path.getFileSystem(configuration).exists(path))
        except Py4JError:
            return False

    def _sources(self) -> dict[str, str]:
        """The sources by the names under which Janino looks them up, with the type that Scala 2.13 changed."""
        two_twelve = ".version 2.12." in f".{self.gateway.jvm.scala.util.Properties.versionString()}"
        seq = "scala.collection.Seq" if two_twelve else "scala.collection.immutable.Seq"
        top = files("pruner_spark") / "java"
        return {
            f"{PACKAGE.replace('.', '/')}/{name}": source.read_text(encoding="utf-8").replace(_SEQ, seq)
            for name, source in _java_files(top)
        }


def _java_files(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Walk the Java classes of a folder, each with its relative path: a folder is a package."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _java_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".java"):
            yield f"{prefix}{entry.name}", entry


def java_session(spark: SparkSession) -> Any:
    """Return the Java session behind a Python session."""
    return spark._jsparkSession  # pyright: ignore[reportPrivateUsage]


def session_state(spark: SparkSession) -> SessionState:
    """Return the rules of a session as they are now."""
    return SessionState.from_settings(json.loads(str(java_side(spark).factory.settings(java_session(spark)))))


def session_id(spark: SparkSession) -> str:
    """Return the identity of a session in its JVM."""
    return str(java_session(spark).sessionUUID())


_sides: dict[int, JavaSide] = {}
_lock = Lock()


def java_side(spark: SparkSession) -> JavaSide:
    """Return the compiled classes of the JVM behind a session.

    Raises:
        PrunerError: the session is of Spark Connect, which has no JVM behind it.
    """
    if ".connect." in type(spark).__module__:
        raise PrunerError("Spark Connect shows no plans to its clients: use pruner_spark.connect_read")
    gateway: Any = spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    with _lock:
        known = _sides.get(id(gateway))
        if known is None or known.gateway is not gateway:
            known = JavaSide(gateway)
            _sides[id(gateway)] = known
        return known
