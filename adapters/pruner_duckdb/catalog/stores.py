"""Lets DuckDB read the object store of a table with the options with which the table was opened.

DuckDB reads S3 with its extension httpfs and according to its secrets. The options become temporary secrets whose
scopes are the folders of the table's files, so that nothing else in the session is read with them. Without httpfs, a
file system that the session has registered (fsspec) is used.

All sessions of a database share its secrets, and of two with the same scope DuckDB takes either. So each scope has one
secret: a statement replaces those that other options left there.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import xxhash
from pyarrow import compute

from pruner.errors import StorageError
from pruner_duckdb.shadow.answers import Ask
from pruner_duckdb.types import quote_text

if TYPE_CHECKING:
    from pruner import Table
    from pruner.tables.snapshot import Snapshot

_SPELLINGS = {"endpoint_url": "endpoint", "token": "session_token"}
"""Other names of options, without the prefix `aws_`."""

_PARAMETERS = {
    "KEY_ID": ("access_key_id",),
    "SECRET": ("secret_access_key",),
    "SESSION_TOKEN": ("session_token",),
    "REGION": ("region", "default_region"),
    "ENDPOINT": ("endpoint_url_s3", "endpoint"),
}
"""The parameters of a secret, and the options that set them; the first one given takes precedence."""

_SCHEME = "s3"
_MOST_SCOPES = 16
"""Up to this many folders of files outside the root get a secret each; if there are more, their common prefixes do."""

_KEPT_SCOPES = 64

_LEAST_LISTED = 4
"""Number of files from which a listing takes fewer requests than one request for each file."""

_TRIED_PATTERN = 3
"""How often to check whether a connection finds the files by a pattern: the table may have changed just then."""

_TRIES = 20
_PAUSE_SECONDS = 0.002
_PATIENCE_SECONDS = 10.0
"""How long a statement waits for others that are changing secrets."""

_HAS_HTTPFS = "SELECT count(*) > 0 FROM duckdb_extensions() WHERE extension_name = 'httpfs' AND loaded"

_made: dict[str, set[str]] = {}
"""The secrets that this process created, by scope: more than one where options changed or differ."""

_change = threading.Lock()
_turn = itertools.count()


class Grants:
    """What one connection and its cursors may read."""

    def __init__(self) -> None:
        self._read_without: set[str] = set()
        self._scopes: dict[tuple[str, str], list[str]] = {}
        self._lists: dict[str, tuple[int, bool]] = {}

    def give(self, ask: Ask, name: str, table: Table, snapshot: Snapshot) -> None:
        """Let a session read the files of a snapshot: see `grant`.

        If a file system of the session reads a root, DuckDB is not asked to create a secret before each statement: it
        would first look for its extension on the network, which takes seconds without one.

        Raises:
            StorageError: this DuckDB cannot read such a store.
        """
        root = snapshot.root
        if root in self._read_without and not ask(_HAS_HTTPFS, [])[0]:
            return
        if grant_to(ask, name, table, snapshot, self._scopes_of(table, snapshot)):
            self._read_without.discard(root)
        else:
            self._read_without.add(root)

    def lists(self, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot) -> bool:
        """Tell whether DuckDB finds the files of a snapshot by its glob pattern; once it did, it is not asked again.

        With a pattern it learns the sizes from one listing; with a list it asks the store about each file (stores.md).
        A file system of the session may list nothing by pattern.

        Args:
            connection: any connection to the database. The check runs on a cursor of it, where an error aborts no
                transaction.
            snapshot: the snapshot.
        """
        pattern = snapshot.glob
        if pattern is None or len(snapshot) < _LEAST_LISTED:
            return False
        tries, found = self._lists.get(pattern, (0, False))
        if found or tries == _TRIED_PATTERN:
            return found
        try:
            with connection.cursor() as other:
                row = other.execute("SELECT count(*) FROM glob(?)", [pattern]).fetchone()
        except duckdb.Error:  # for instance, the secret belongs to a transaction that has not ended
            row = None
        while len(self._lists) >= _KEPT_SCOPES and pattern not in self._lists:
            self._lists.pop(next(iter(self._lists)), None)
        found = row == (len(snapshot),)
        self._lists[pattern] = (tries + 1, found)
        return found

    def _scopes_of(self, table: Table, snapshot: Snapshot) -> list[str]:
        if not table.storage_options:
            return []
        key = (snapshot.root, snapshot.id)
        scopes = self._scopes.get(key)
        if scopes is None:
            scopes = scopes_of(snapshot)
            while len(self._scopes) >= _KEPT_SCOPES:
                self._scopes.pop(next(iter(self._scopes)), None)
            self._scopes[key] = scopes
        return scopes


def grant(
    ask: Ask,
    name: str,
    root: str,
    options: Mapping[str, str],
    file: str | None = None,
    scopes: Sequence[str] | None = None,
) -> bool:
    """Let a session read the files below a root; a no-op for local ones and if no options were given: then the
    session's own secrets apply.

    Returns:
        False if DuckDB has no secrets, and a file system of the session reads the root.

    Args:
        ask: runs a query in the session.
        name: the table's name, for errors.
        root: URI of the table's root.
        options: options of the store, by `obstore`'s names; the environment provides what they leave out.
        file: URI of a Parquet file of the table.
        scopes: as `scopes_of` returns them; the root's folder if there are none.

    Raises:
        StorageError: this DuckDB cannot read such a store.
    """
    scheme, separator, _ = root.partition("://")
    if not separator or not options:
        return True
    if scheme != _SCHEME:
        raise StorageError(
            f"table {name}: DuckDB has no secret for the store of {root}; it can read s3:// and paths"
        )
    try:
        for scope in scopes or [f"{root}/"]:
            _make_secret(ask, scope, options)
    except duckdb.Error as error:
        if _reads(ask, root, file):
            return False
        reason = str(error).strip().split("\n", 1)[0].rstrip(": ")
        if reason.count("'") % 2:  # DuckDB 2.0 forgets to close one
            reason += "'"
        raise StorageError(
            f"table {name}: DuckDB cannot read {root} without its extension httpfs ({reason}): "
            "INSTALL httpfs where there is a network, or register a file system for s3:// with this connection"
        ) from None
    return True


def grant_to(
    ask: Ask, name: str, table: Table, snapshot: Snapshot, scopes: Sequence[str] | None = None
) -> bool:
    """Let a session read the files of a snapshot: see `grant`.

    Raises:
        StorageError: this DuckDB cannot read such a store.
    """
    options = table.storage_options
    if scopes is None and options:
        scopes = scopes_of(snapshot)
    bases = np.flatnonzero(snapshot.has_base)
    file = snapshot.value("base_file", int(bases[0])) if len(bases) else None
    return grant(ask, name, snapshot.root, options, file, scopes)


def scopes_of(snapshot: Snapshot) -> list[str]:
    """Prefixes of the URIs of a snapshot's base files, as scopes for secrets; empty for local ones.

    A scope ends with a slash, because DuckDB compares characters: `s3://lake/t` would match `s3://lake/t2/…`, too. A
    table of several roots, one whose root is a file, and an Iceberg table whose data was written to another location
    have files elsewhere: the scopes of those are their folders above the first `name=value`.
    """
    below = f"{snapshot.root}/"
    if "://" not in below:
        return []
    if not isinstance(snapshot.columns, pa.Table):
        return [below]  # a Hudi table, which has no files elsewhere
    arrow: Any = compute
    files = arrow.drop_null(snapshot.column("base_file"))
    others = files.filter(arrow.invert(arrow.starts_with(files, below)))
    is_root = arrow.equal(others, snapshot.root)
    folders: Any = arrow.replace_substring_regex(
        others.filter(arrow.invert(is_root)), r"(/[^/=]*=[^/]*)*/[^/]*$", "/"
    )
    found = sorted(arrow.unique(folders).to_pylist())
    if len(found) > _MOST_SCOPES:
        found = _in_common(found)
    return [snapshot.root if arrow.any(is_root).as_py() else below, *found]


def _in_common(folders: Sequence[str]) -> list[str]:
    """The common prefix of the folders in each bucket."""
    shared: dict[str, list[str]] = {}
    for folder in folders:
        steps = folder.rstrip("/").split("/")
        before = shared.setdefault(steps[2], steps)
        alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, steps, strict=False))
        shared[steps[2]] = [step for step, _ in alike]
    return ["/".join([*steps, ""]) for steps in shared.values()]


def _make_secret(ask: Ask, scope: str, options: Mapping[str, str]) -> None:
    """Give a scope the secret for some options, and no other one of ours.

    Raises:
        duckdb.Error: DuckDB has no such secrets.
    """
    name, statement = secret_sql(scope, options, os.environ)
    names = _made.setdefault(scope, set())
    names.add(name)
    if len(names) == 1:
        _patiently(ask, statement)
        return
    # Two threads that drop each other's secrets would leave none. If the lock is not acquired in time, go on without
    # it: the thread that holds it may be waiting for a connection that is in use.
    held = _change.acquire(timeout=_PATIENCE_SECONDS)
    try:
        # The comment makes each text unique: a cached answer would replace nothing.
        _patiently(ask, f"{statement} /* {next(_turn)} */")
        (others,) = ask(
            "SELECT list(name) FROM duckdb_secrets() WHERE starts_with(name, ?) AND name <> ? AND ? >= 0",
            [_name_of(scope), name, next(_turn)],
        )
        if others:
            dropped = "; ".join(f"DROP TEMPORARY SECRET IF EXISTS {other}" for other in others)
            ask(f"{dropped}; SELECT {next(_turn)}", [])
    finally:
        if held:
            _change.release()


def _patiently(ask: Ask, statement: str) -> None:
    """Run a statement, and retry it if it conflicts with another thread's that is creating the same secret."""
    for left in reversed(range(_TRIES)):
        try:
            ask(statement, [])
        except duckdb.TransactionException:
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _name_of(scope: str) -> str:
    """The prefix of the names of all secrets of a scope."""
    return f"pruner_{xxhash.xxh3_64_hexdigest(scope.encode())}_"


def _reads(ask: Ask, root: str, file: str | None) -> bool:
    """Tell whether the session can read a location nevertheless, through a file system of its own.

    `obstore`'s own (`FsspecStore`) lists nothing by pattern for DuckDB, but opens files.
    """
    questions = [("SELECT count(*) > 0 FROM glob(?)", f"{root}/*")]
    if file is not None:
        questions.append(("SELECT count(*) > 0 FROM parquet_file_metadata(?)", file))
    for question, place in questions:
        try:
            (answer,) = ask(question, [place])
        except duckdb.Error:
            continue
        if answer:
            return True
    return False


def secret_sql(scope: str, options: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of a secret, and the statement that creates it.

    What the options leave out is taken from the present environment, as by pruner's own client: DuckDB would take it
    from the environment at the time when httpfs was loaded, and take no endpoint from there.

    Args:
        scope: the prefix of the URIs that are read with it.
        options: options of the store; those without an equivalent in DuckDB are left to its own settings.
        environment: the variables of the process.
    """
    known = {key: value for key, value in environment.items() if key.startswith("AWS_") and value}
    given = _by_one_name(known) | _by_one_name(options)
    if given.get("skip_signature", "").lower() in ("true", "1", "yes", "on"):
        # An empty key keeps DuckDB from using one of its own.
        given |= {"access_key_id": "", "secret_access_key": "", "session_token": ""}
    values: dict[str, str] = {}
    for parameter, names in _PARAMETERS.items():
        value = next((given[name] for name in names if name in given), None)
        if value is not None:
            values[parameter] = value
    parts = ["TYPE s3", f"SCOPE {quote_text(scope)}"]
    endpoint = values.pop("ENDPOINT", None)
    if endpoint is not None:
        scheme, separator, host = endpoint.partition("://")
        values["ENDPOINT"] = host if separator else endpoint
        parts.append(f"USE_SSL {'false' if scheme == 'http' else 'true'}")
        virtual = given.get("virtual_hosted_style_request", "false").lower() == "true"
        parts.append(f"URL_STYLE '{'vhost' if virtual else 'path'}'")
    parts += [f"{key} {quote_text(value)}" for key, value in sorted(values.items())]
    name = _name_of(scope) + xxhash.xxh3_64_hexdigest("\0".join(parts).encode())
    return name, f"CREATE TEMPORARY SECRET IF NOT EXISTS {name} ({', '.join(parts)})"


def _by_one_name(options: Mapping[str, str]) -> dict[str, str]:
    names = {key: key.lower().removeprefix("aws_") for key in options}
    return {_SPELLINGS.get(name, name): options[key] for key, name in names.items()}
