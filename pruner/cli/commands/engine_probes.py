"""What `pruner doctor` finds about engines: whether those that are installed read the table, and their versions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from pruner.adapters import FileScanner, ProbingAdapter, VersionedAdapter, adapter_names, load_adapter
from pruner.advice.trials import subset
from pruner.errors import PrunerError, SchemaError, first_line
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.nodes import Constant
from pruner.expr.semantics import Semantics
from pruner.maintenance.doctor import Finding, Severity
from pruner.planning.planner import Planner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.evidence.sources import Sources
    from pruner.planning.plan import Plan
    from pruner.schema import Field
    from pruner.table import Table


def probe_engines(table: Table) -> Iterator[Finding]:
    """Have each engine that is installed and runs in this process read a row, and name the others."""
    absent: list[str] = []
    elsewhere: list[str] = []
    beyond = _beyond_files(table)
    of_files: list[str] = []
    for name in adapter_names():
        try:
            adapter = load_adapter(name)
        except PrunerError as error:
            if isinstance(error.__cause__, ModuleNotFoundError):
                absent.append(name)
            else:
                yield Finding(f"engine {name}", Severity.WARNING, str(error))
            continue
        if isinstance(adapter, VersionedAdapter):
            yield _version(name, adapter)
        if beyond is not None and isinstance(adapter, FileScanner):
            of_files.append(name)
        elif isinstance(adapter, ProbingAdapter):
            yield _reading(name, adapter, table)
        else:
            elsewhere.append(name)
    reasons = [
        *(
            [f"{', '.join(of_files)} (read files as they are, and {beyond}: use DuckDB or Spark)"]
            if of_files
            else []
        ),
        *([f"{', '.join(elsewhere)} (it needs a session or a server)"] if elsewhere else []),
        *([f"{', '.join(absent)} (not installed)"] if absent else []),
    ]
    if reasons:
        yield Finding("engine", Severity.OK, f"not tried: {'; '.join(reasons)}")


def _beyond_files(table: Table) -> str | None:
    """Why the files of a table are not its content for engines that read nothing but files; None where they are."""
    if any(field.stored is not None and field.in_file for field in table.schema):
        return "this table's columns have other names in the files, or are found by field ids"
    if table.snapshot().data.has_deletes.any():
        return "rows of this table's files are deleted"
    return None


def _version(name: str, adapter: VersionedAdapter) -> Finding:
    probe, version = f"engine {name}", adapter.installed_version
    installed = f"version {version} is installed (tested versions: {', '.join(adapter.tested_versions)})"
    problem = adapter.self_test()
    if problem is not None:
        newest = f"{installed}; the self-test failed, so that statements run unpruned: {problem}"
        return Finding(probe, Severity.WARNING, newest, "install a tested version")
    return Finding(probe, Severity.OK, f"{installed}; the self-test found no problem")


def _reading(name: str, adapter: ProbingAdapter, table: Table) -> Finding:
    probe, started = f"engine {name}", time.monotonic()
    plan = _plan_of_one(table)
    if plan is None:
        return Finding(probe, Severity.OK, "not tried: there is no file that could be read")
    try:
        adapter.probe(table, plan)
    except SchemaError as error:  # the table's columns, not what the engine needs
        remedy = (
            "name the columns that are read, or open each folder by itself if they are tables of their own"
        )
        return Finding(probe, Severity.FAILURE, f"cannot read the table: {first_line(error)}", remedy)
    # Each engine has errors of its own, and native ones panic.
    except Exception as error:
        remedy = f"see that {name} has what it needs for this store, and that the file is whole"
        return Finding(probe, Severity.FAILURE, f"cannot read the table: {first_line(error)}", remedy)
    return Finding(probe, Severity.OK, f"a row was read in {(time.monotonic() - started) * 1e3:.0f} ms")


def _plan_of_one(table: Table) -> Plan | None:
    """A plan that reads one base file, the first that indexes may cover; None where there is none."""
    snapshot = table.snapshot().data
    readable = np.flatnonzero(snapshot.coverable)
    files = snapshot.column("base_file")
    first = next((ordinal for ordinal in readable if files[int(ordinal)].is_valid), None)
    if first is None:
        return None
    chosen = subset(snapshot, np.array([first]))
    semantics = Semantics(engine=REFERENCE_ENGINE, scan_mode="read_optimized")
    return Planner(chosen, _Nothing(), table.storage_options).plan(Constant(True), "true", semantics)


class _Nothing:
    """No evidence at all: see `pruner.evidence.sources.KnowsFields`."""

    def sources(self, about: Field) -> Sources:
        """See `KnowsFields.sources`."""
        from pruner.evidence.sources import Sources

        return Sources()
