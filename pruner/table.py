"""A table with its indexes: the object that users and adapters hold.

Most processes only plan. Other methods import what they need when they are called: loading all of it takes longer than
planning over thousands of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pruner.errors import IndexDefinitionError, PrunerError
from pruner.formats.detect import open_table_source
from pruner.limits import INDEX_MEMORY
from pruner.metadata.last_snapshot import LastSnapshot
from pruner.metadata.receipts import checked_grace
from pruner.metadata.segment_cache import SegmentCache
from pruner.pipeline.runners import LOCAL, runner_for
from pruner.planning.pinned import PinnedSnapshot
from pruner.planning.python_engines import counted_by_reading
from pruner.planning.views import Views
from pruner.showing.progress import telling
from pruner.tables.source import NamedSource

if TYPE_CHECKING:
    from pruner.advice.forecast import Pace, SampleLimits
    from pruner.advice.proposals import Advice
    from pruner.expr.nodes import Expr
    from pruner.expr.semantics import Semantics
    from pruner.maintenance.build import Indexing, RefreshResult
    from pruner.maintenance.compaction import CompactResult
    from pruner.maintenance.doctor import Finding
    from pruner.maintenance.inspection import IndexEntry
    from pruner.maintenance.mapping import TableMap
    from pruner.maintenance.status import TableStatus
    from pruner.metadata.cleanup import OutOfUse
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.table import MetadataTable
    from pruner.pipeline.batches import SharingRunner
    from pruner.pipeline.requests import Progress
    from pruner.pipeline.runners import Run
    from pruner.planning.plan import Plan
    from pruner.schema import TableSchema
    from pruner.tables.source import TableSource


class Table:
    """A Parquet, Delta, Iceberg or Hudi table and the indexes over it. It is thread-safe."""

    def __init__(
        self,
        source: TableSource,
        metadata: MetadataTable,
        index_uri: str,
        max_staleness: float,
        index_memory: int = INDEX_MEMORY,
        *,
        hudi_indexes: bool = True,
        file_filters: bool = True,
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._segments = SegmentCache(lambda: metadata, index_memory)
        used = {"own_indexes": hudi_indexes, "file_filters": file_filters}
        self._last_snapshot = LastSnapshot(source, metadata)
        self._views = Views(source, metadata, self._segments, self._last_snapshot, max_staleness, **used)
        self.index_uri = index_uri

    def __repr__(self) -> str:
        return f"<Table {self.uri} ({self.format})>"

    @property
    def uri(self) -> str:
        """URI of the (first) root."""
        return self._source.root

    @property
    def format(self) -> str:
        """Name of the table format: `parquet`, `delta`, `iceberg`, `hudi`, or that of a plugin."""
        return self._source.format

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Object store options with which the table was opened."""
        return self._source.storage_options

    @property
    def schema(self) -> TableSchema:
        """Current schema of the table."""
        return self.snapshot().schema

    def indexes(self) -> tuple[IndexDefinition, ...]:
        """Definitions of the indexes, in creation order.

        Raises:
            FormatError: the metadata table is damaged, or a newer pruner wrote it.
            StorageError: it cannot be read.
        """
        return self._metadata.state().definitions

    def snapshot(self, as_of: str | None = None, *, fresh: bool = False) -> PinnedSnapshot:
        """Take a snapshot and pin it.

        Args:
            as_of: an instant of a Hudi table, a version or time of a Delta table, a snapshot id, branch, tag or time of
                an Iceberg table; by default the newest state.
            fresh: check the table now, whatever `max_staleness` allows.

        Raises:
            TableError: the listing cannot be read completely, or `as_of` cannot be resolved.
        """
        if fresh:
            self._views.forget()
        return PinnedSnapshot(self._views.current() if as_of is None else self._views.as_of(str(as_of)))

    def plan(
        self, predicate: str | Expr, *, dialect: str | None = None, semantics: Semantics | None = None
    ) -> Plan:
        """Find the slices that can hold a row for which the predicate is true.

        Args:
            predicate: SQL text, or the expression form (`pruner.expr.nodes`), which never fails for a type mismatch.
            dialect: engine whose SQL and default semantics apply: duckdb (default), spark, trino.
            semantics: the engine's full rules, instead of `dialect`.

        Raises:
            PredicateError: the text cannot be parsed, compares what cannot be compared, or is too large.
            SchemaError: the text names a column that the table does not have.
            TableError: the listing cannot be read completely.
        """
        return self.snapshot().plan(predicate, dialect=dialect, semantics=semantics)

    def count(
        self,
        predicate: str = "true",
        *,
        dialect: str | None = None,
        semantics: Semantics | None = None,
        as_of: str | None = None,
    ) -> int:
        """Count the rows for which the predicate is true; DuckDB reads the files if metadata alone has no exact answer.

        Takes the arguments of `plan`, and `as_of` like `snapshot`; also raises what they raise.

        Raises:
            PredicateError: files must be read, and the predicate is not in DuckDB's SQL.
            BrokenPluginError: files must be read, and DuckDB is not installed.
        """
        plan = self.snapshot(as_of=as_of).plan(predicate, dialect=dialect, semantics=semantics)
        answer = plan.count()
        if answer.exact:
            return answer.value
        by = self._source.opened_by if isinstance(self._source, NamedSource) else self.uri
        return counted_by_reading(self, by, predicate, plan.semantics, plan.schema, as_of)

    def create_index(  # noqa: PLR0913 - one parameter for each clause of CREATE INDEX
        self,
        name: str,
        on: str | Sequence[str],
        using: str = "column_stats",
        *,
        options: Mapping[str, str | int] | None = None,
        where: str | None = None,
        dialect: str | None = None,
        if_not_exists: bool = False,
        build: bool = True,
        force: bool = False,
        dry_run: bool = False,
        run: Run = LOCAL,
        progress: Progress | bool | None = None,
    ) -> RefreshResult | None:
        """Define an index and build it.

        Args:
            name: unique in the table, regardless of case.
            on: a column path, a list of them (each is indexed separately), "*" for every column of a supported type, or
                an expression over columns (docs/expressions.md).
            using: type of the index.
            options: options of the type.
            where: predicate on partition columns; slices of other partitions are not indexed, so this index prunes none
                of them.
            dialect: engine in whose SQL the expression is written: duckdb (default), spark, trino.
            if_not_exists: do nothing when an index of that name exists.
            build: False only registers the index; `refresh` builds it.
            force: create it even if a sample of the files shows that it would be too large (docs/bitmap.md).
            dry_run: create nothing and only estimate the cost (`estimate` in the result).
            run: where it is built: see `refresh`.
            progress: called with the number of slices done and of all slices; False shows no bar in a terminal or
                notebook.

        Returns:
            What was built, or None if nothing was.

        Raises:
            IndexDefinitionError: the name is taken, the column or type cannot be indexed, or the index would be too
                large and is not forced.
            SchemaError: no such column.
            StorageError: the metadata table cannot be written.
        """
        from pruner.maintenance.build import is_forced, what_stands
        from pruner.pipeline.batches import SharingRunner

        runner = runner_for(run)  # a `run` that cannot be used must not leave a definition behind
        given = {key: str(value) for key, value in (options or {}).items()}
        force = is_forced(given) or force
        if dry_run:
            return self._indexing().estimate(name, on, using, given, where, dialect)
        if isinstance(runner, SharingRunner):
            self._share_listing(runner)
        try:
            created = self._indexing().create(
                name, on, using, given, if_not_exists=if_not_exists, where=where, dialect=dialect, force=force
            )
        except PrunerError:
            self._last_snapshot.forget_listed()
            raise
        self._last_snapshot.keep_listed()
        self._views.forget()
        if created is None or not build:
            return None
        with what_stands(self._metadata, created):
            return self.refresh(progress=progress, index=name, run=run)

    def drop_index(self, name: str, *, if_exists: bool = False) -> bool:
        """Drop an index; returns whether there was one.

        Raises:
            IndexDefinitionError: there is no such index and `if_exists` is False.
        """
        dropped = self._indexing().drop(name, if_exists=if_exists)
        self._views.forget()
        return dropped

    def refresh(
        self,
        *,
        index: str | None = None,
        partition: str | Sequence[str] = (),
        run: Run = LOCAL,
        dry_run: bool = False,
        progress: Progress | bool | None = None,
    ) -> RefreshResult:
        """Index every slice that is not covered yet.

        Args:
            index: only this index; by default all.
            partition: only these partitions and those below them, by path (`year=2024`); by default all.
            run: "local" for this machine, or a SparkSession, whose executors then do the work.
            dry_run: only count what would be read.
            progress: as in `create_index`; with a SparkSession it is called from another thread.

        Returns:
            Counts, and one sentence for each slice that failed (it stays uncovered; the others are committed).

        Raises:
            IndexDefinitionError: there is no such index.
            TableError: there is no such partition.
            ConflictError: an index was dropped while it was being built.
            StorageError: the metadata table cannot be written.
            PrunerError: Spark's executors lack a requirement, or the Spark job failed.
        """
        from pruner.maintenance.build import what_stands
        from pruner.pipeline.batches import SharingRunner

        partitions = [partition] if isinstance(partition, str) else list(partition)
        runner = runner_for(run)
        if isinstance(runner, SharingRunner) and not dry_run and self.indexes():
            self._share_listing(runner)
            self._last_snapshot.keep_listed()
        with what_stands(self._metadata), telling(progress, "indexing") as told:
            result = self._indexing().refresh(index, partitions, runner, dry_run=dry_run, progress=told)
        if not dry_run:
            self._views.keep()
        self._views.forget()
        return result

    def tag_location(self, keys: Any) -> Any:
        """Find the partition, file group and base instant of each key, or that the key is new.

        Uses a record index if there is one; otherwise ranges and Bloom filters, and then the files themselves.

        Args:
            keys: an Arrow table or a Spark DataFrame of the key columns, named as in the table.

        Returns:
            The keys, as a table or DataFrame like `keys`, with `partition_path`, `file_id` and `base_instant`, which
            are null for NULL and for keys that no row has. A key that is in several file groups appears once for each.

        Raises:
            SchemaError: the table has no such column, or has it with another type.
            TableError: file groups that may hold the keys have log files that cannot be merged as Hudi merges them.
            StorageError: a file cannot be read.
        """
        from pruner.locating.spark import TableHandle, located

        pinned, limit = self.snapshot(), self._segments.limit_bytes
        roots, options = tuple(self._source.roots), dict(self.storage_options)
        return located(
            keys, pinned, TableHandle(roots, self.format, self.index_uri, options, pinned.id, limit)
        )

    def status(self) -> TableStatus:
        """Coverage, age and size of each index over the current table."""
        from pruner.maintenance.status import table_status

        return table_status(
            self._source.roots, self.format, self._views.current(), self._segments, self._views.usage
        )

    def inspect(self, index: str, prefix: str = "", *, positions: int = 10) -> Iterator[IndexEntry]:
        """Show the entries of an index that stores values, over the current table, by key.

        Args:
            index: name of the index.
            prefix: prefix of the keys `column$value$partition$file_group` (docs/bitmap.md).
            positions: maximum number of row positions to show for an entry.

        Raises:
            IndexDefinitionError: there is no such index, or its type stores no values.
            FormatError: the metadata table is damaged.
        """
        from pruner.maintenance.inspection import entries

        view = self._views.current()
        if view.state is None:
            raise IndexDefinitionError(
                f"no index {index!r} on {self.uri}: it has no index that could be read"
            )
        definition = view.state.required(index, self.uri)
        return entries(definition, view.state, view.snapshot, self._segments, prefix, positions)

    def map(self, columns: str | Sequence[str] = (), *, history: bool = False) -> TableMap:
        """Report which slices each index covers, and how far column ranges overlap across the slices.

        Args:
            columns: column paths; by default those with an index of ranges. Ranges that no index has come from the
                footers of at most 2,000 files.
            history: also count the slices that each index covered after each of the newest commits to its records.

        Raises:
            SchemaError: no such column.
            IndexDefinitionError: every named column is of a type without ranges.
        """
        from pruner.maintenance.mapping import Cartographer

        view = self._views.current()
        drawn = Cartographer(view.snapshot, view.state, self._segments, self.storage_options)
        drawn_map = drawn.table(self.uri, [columns] if isinstance(columns, str) else list(columns))
        if not history or view.state is None:
            return drawn_map
        from pruner.maintenance.status import coverage_over_time

        told = coverage_over_time(self._metadata, view.snapshot, view.state, self._segments)
        return replace(drawn_map, history=told)

    def advise(
        self,
        plans: Sequence[Plan] = (),
        *,
        limits: SampleLimits | None = None,
        budget: float | Pace | None = None,
    ) -> Advice:
        """Report which indexes would help, what each costs and saves, which never helped, and what a layout would do.

        Args:
            plans: plans of the statements to speed up, for example `last_plans` of a connection; without any,
                predicates are made from values of each column.
            limits: how much of the table is sampled (docs/advisor.md).
            budget: seconds that it may take; if the sample cannot be finished by then, a smaller one is judged, and the
                notes say so. Without a budget the whole sample is judged, however long it takes.

        Raises:
            TableError: the listing cannot be read completely.
        """
        from pruner.advice.advisor import Advisor
        from pruner.advice.forecast import Pace

        pace = budget if isinstance(budget, Pace) else Pace(budget)
        view = self._views.current()
        advisor = Advisor(
            self.uri, view.snapshot, view.state, self._segments, self.storage_options, limits, pace
        )
        return advisor.advise(plans)

    def verify(self, *, files: bool = False) -> list[str]:
        """Check every stored byte of the metadata table against its checksum; return one sentence for each fault.

        Partition statistics are also recomputed from the records and compared.

        Args:
            files: also list all files of the table again, and name those that changed in place since they were
                indexed. This checks the promise `files="immutable"`. In a table without that promise such a change is
                no fault.
        """
        from pruner.maintenance.compaction import changed_files, partition_stats_problems

        faults = [*self._metadata.verify(), *partition_stats_problems(self._metadata)]
        if files and not faults:
            whole = open_table_source(self._source.roots, self.storage_options, self.format)
            LastSnapshot(whole, self._metadata).resume()
            faults += changed_files(self._metadata, whole.snapshot())
        return faults

    def diagnose(self) -> Iterator[Finding]:
        """Probe what pruning and building rely on, one check after another: see `pruner doctor`.

        Lists the table, reads the footer of one file, and writes, reads and deletes an object at the location of the
        metadata table. The table and its indexes do not change.

        Raises:
            TableError: the table cannot be listed, so nothing else can be tried.
            StorageError: the store refuses the read.
        """
        from pruner.maintenance.doctor import examine

        return examine(self._source, self._metadata, self._views.fresh_snapshot, self.status)

    def compact(self) -> CompactResult:
        """Merge the small segments that many refreshes leave, and drop slices that are gone from the table. A damaged
        saved snapshot is written again.

        Readers are not disturbed: merged segments stay until they have been out of use long enough for `vacuum`. Plans
        of past instants lose the evidence about slices that the newest snapshot does not have.

        Raises:
            ConflictError: another writer removed what was being merged; try again.
            FormatError: a segment is damaged.
            StorageError: the metadata table cannot be read or written.
        """
        from pruner.maintenance.compaction import Compaction

        identity = self._source.identity()
        result = Compaction(self._metadata, self._segments, identity, self._views.fresh_snapshot).run()
        self._last_snapshot.mend()
        self._views.forget()
        return result

    def vacuum(self, *, grace_seconds: float = 7 * 24 * 3600) -> int:
        """Delete files that have been out of use for longer than the grace; returns how many.

        With a short grace a concurrent plan may find records gone: it keeps files that it could have pruned. A build
        that runs longer than the grace fails with a conflict and must be run again. No row is lost either way.

        Raises:
            PrunerError: the grace is not a number of seconds, 0 or more.
        """
        return self._metadata.vacuum(checked_grace(grace_seconds))

    def out_of_use(self, *, grace_seconds: float = 7 * 24 * 3600) -> OutOfUse:
        """Unreferenced files that `vacuum` with this grace keeps for now, and until when.

        Raises:
            PrunerError: the grace is not a number of seconds, 0 or more.
        """
        return self._metadata.out_of_use(checked_grace(grace_seconds))

    def uninstall(self) -> bool:
        """Delete the metadata table with all indexes; the table's own files are never touched.

        Returns:
            Whether there was something to delete.
        """
        deleted = self._metadata.uninstall()
        self._views.forget()
        return deleted > 0

    def _share_listing(self, runner: SharingRunner) -> None:
        """Let the machines that build the index list the table, if no process has listed it and it is worth it."""
        from pruner.maintenance.shared_listing import share_listing

        self._views.resume()
        share_listing(self._source, self._metadata, self._last_snapshot, runner)

    def _indexing(self) -> Indexing:
        from pruner.maintenance.build import Indexing

        return Indexing(
            self._source, self._metadata, self._segments, self._last_snapshot, self._views.fresh_snapshot
        )
