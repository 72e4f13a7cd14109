"""Lets DuckDB read the object store of a table with the options with which the table was opened.

DuckDB reads S3 with its extension httpfs and by what its secrets say. The options become temporary secrets
whose scopes are the folders of the table's files, so that nothing else in the session is read with them. Where there
is no httpfs, a file system that the session has registered (fsspec) serves.

All sessions of a database share its secrets, and of two with one scope DuckDB takes either. So there is one for a
scope: a statement replaces those that other options left there.
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
"""Other names of options, without the `aws_` in front of them."""

_PARAMETERS = {
    "KEY_ID": ("access_key_id",),
    "SECRET": ("secret_access_key",),
    "SESSION_TOKEN": ("session_token",),
    "REGION": ("region", "default_region"),
    "ENDPOINT": ("endpoint_url_s3", "endpoint"),
}
"""What a secret says, and the options that say it; the first one counts."""

_SCHEME = "s3"
_MOST_SCOPES = 16
"""So many folders of files outside the root have a secret each; of more, what they have in common."""

_KEPT_SCOPES = 64

_LEAST_LISTED = 4
"""Files for which a listing takes fewer requests than a question for each."""

_TRIED_PATTERN = 3
"""How often a connection is asked whether it finds the files by a pattern: the table may have changed just then."""

_TRIES = 20
_PAUSE_SECONDS = 0.002
_PATIENCE_SECONDS = 10.0
"""How long a statement waits for others that change the secrets of a scope."""

_HAS_HTTPFS = "SELECT count(*) > 0 FROM duckdb_extensions() WHERE extension_name = 'httpfs' AND loaded"

_made: dict[str, set[str]] = {}
"""The secrets that this process made, by their scope: more than one where options changed or differ."""

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

        Where a file system of the session's own reads a root, DuckDB is not asked for a secret before each statement:
        for one it looks for its extension in the network first, which takes seconds where there is none.

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
        """Tell whether DuckDB finds the files of a snapshot by its pattern, as it has shown once.

        By a pattern it learns the sizes from one listing; of a list it asks the store about each file (stores.md).
        A file system of the session's own may list nothing by pattern.

        Args:
            connection: any to the database. It is asked on another one, where a failure ends no transaction.
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
        except duckdb.Error:  # as where the secret is one of a transaction that has not ended
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
    """Let a session read the files below a root; does nothing for local ones, nor where no options were given:
    then the session's own secrets serve.

    Returns:
        False where DuckDB has no secrets, and a file system of the session's own reads the root.

    Args:
        ask: runs a query in the session.
        name: the table's name, for errors.
        root: URI of the table's root.
        options: options of the store, by `obstore`'s names; the environment has what they leave open.
        file: URI of a Parquet file of the table.
        scopes: as `scopes_of` gives them; what lies below the root where there are none.

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
    """What the URIs of a snapshot's base files begin with, for secrets; empty for local ones.

    A scope ends with a slash, for DuckDB compares letters: `s3://lake/t` would count for `s3://lake/t2/…` as well.
    A table of several roots, one whose root is a file, and an Iceberg table whose data were written to another place
    have files elsewhere: those are found by their folders above the first `name=value`.
    """
    below = f"{snapshot.root}/"
    if "://" not in below:
        return []
    if not isinstance(snapshot.columns, pa.Table):
        return [below]  # of Hudi, which has nothing elsewhere
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
    """What the folders of each bucket have in common."""
    shared: dict[str, list[str]] = {}
    for folder in folders:
        steps = folder.rstrip("/").split("/")
        before = shared.setdefault(steps[2], steps)
        alike = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before, steps, strict=False))
        shared[steps[2]] = [step for step, _ in alike]
    return ["/".join([*steps, ""]) for steps in shared.values()]


def _make_secret(ask: Ask, scope: str, options: Mapping[str, str]) -> None:
    """Let a scope have the secret of some options, and no other one of ours.

    Raises:
        duckdb.Error: DuckDB has no such secrets.
    """
    name, statement = secret_sql(scope, options, os.environ)
    names = _made.setdefault(scope, set())
    names.add(name)
    if len(names) == 1:
        _patiently(ask, statement)
        return
    # Two that take each other's away would leave none. A lock that is not had in time is done without: the thread
    # that holds it may wait for a connection that is in use.
    held = _change.acquire(timeout=_PATIENCE_SECONDS)
    try:
        # Each is a question of its own: a remembered answer would replace nothing.
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
    """Run a statement again that met another thread's, which was about to make the same secret."""
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
    """What the names of all secrets of a scope begin with."""
    return f"pruner_{xxhash.xxh3_64_hexdigest(scope.encode())}_"


def _reads(ask: Ask, root: str, file: str | None) -> bool:
    """Tell whether the session reads a place all the same, by a file system of its own.

    One that is made for `obstore` (`FsspecStore`) lists nothing by pattern for DuckDB, and opens files well.
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
    """Return the name of a secret, and the statement that makes it.

    What the options leave open comes from the environment as it is now, as pruner's own client has it: DuckDB would
    take it from the environment as it was when httpfs was loaded, and know no endpoint from there.

    Args:
        scope: what URIs begin with that are read with it.
        options: options of the store; those that DuckDB has no word for are left to its own settings.
        environment: the variables of the process.
    """
    known = {key: value for key, value in environment.items() if key.startswith("AWS_") and value}
    given = _by_one_name(known) | _by_one_name(options)
    if given.get("skip_signature", "").lower() in ("true", "1", "yes", "on"):
        # An empty key keeps DuckDB from one of its own.
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
