"""Lets DuckDB read the object store of a table with the options with which the table was opened.

DuckDB reads S3 with its extension httpfs and by what its secrets say. The options become a temporary secret
whose scope is the table's root, so that nothing else in the session is read with it. Where there is no httpfs, a file
system that the session has registered (fsspec) serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import xxhash

from pruner.errors import StorageError
from pruner_duckdb.shadow.answers import Ask
from pruner_duckdb.types import quote_text

if TYPE_CHECKING:
    from pruner import Table
    from pruner.tables.snapshot import Snapshot

_PARAMETERS = {
    "access_key_id": "KEY_ID",
    "secret_access_key": "SECRET",
    "session_token": "SESSION_TOKEN",
    "token": "SESSION_TOKEN",
    "region": "REGION",
    "default_region": "REGION",
    "endpoint": "ENDPOINT",
    "endpoint_url": "ENDPOINT",
}
_SCHEME = "s3"


_HAS_HTTPFS = "SELECT count(*) > 0 FROM duckdb_extensions() WHERE extension_name = 'httpfs' AND loaded"


class Grants:
    """What one connection and its cursors may read."""

    def __init__(self) -> None:
        self._read_without: set[str] = set()

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
        if grant_to(ask, name, table, snapshot):
            self._read_without.discard(root)
        else:
            self._read_without.add(root)


def grant(ask: Ask, name: str, root: str, options: Mapping[str, str], file: str | None = None) -> bool:
    """Let a session read the files below a root; does nothing for local ones, nor where no options were given:
    then the session's own secrets serve.

    Returns:
        False where DuckDB has no secrets, and a file system of the session's own reads the root.

    Args:
        ask: runs a query in the session.
        name: the table's name, for errors.
        root: URI of the table's root.
        options: options of the store, by `obstore`'s names.
        file: URI of a Parquet file of the table.

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
        ask(secret_sql(root, options), [])
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


def grant_to(ask: Ask, name: str, table: Table, snapshot: Snapshot) -> bool:
    """Let a session read the files of a snapshot: see `grant`.

    Raises:
        StorageError: this DuckDB cannot read such a store.
    """
    bases = np.flatnonzero(snapshot.has_base)
    file = snapshot.value("base_file", int(bases[0])) if len(bases) else None
    return grant(ask, name, snapshot.root, table.storage_options, file)


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


def secret_sql(root: str, options: Mapping[str, str]) -> str:
    """Return the statement that makes the secret of a root.

    Args:
        root: URI of the table's root.
        options: options of the store; those that DuckDB has no word for are left to its own settings.
    """
    given = {key.lower().removeprefix("aws_"): value for key, value in options.items()}
    values = {_PARAMETERS[key]: value for key, value in given.items() if key in _PARAMETERS}
    parts = ["TYPE s3", f"SCOPE {quote_text(root)}"]
    endpoint = values.pop("ENDPOINT", None)
    if endpoint is not None:
        scheme, separator, host = endpoint.partition("://")
        values["ENDPOINT"] = host if separator else endpoint
        parts.append(f"USE_SSL {'false' if scheme == 'http' else 'true'}")
        virtual = given.get("virtual_hosted_style_request", "false").lower() == "true"
        parts.append(f"URL_STYLE '{'vhost' if virtual else 'path'}'")
    parts += [f"{key} {quote_text(value)}" for key, value in sorted(values.items())]
    digest = xxhash.xxh3_64_hexdigest("\0".join([root, *parts]).encode())
    return f"CREATE TEMPORARY SECRET IF NOT EXISTS pruner_{digest} ({', '.join(parts)})"
