"""Values in the names of folders (`day=2024-01-01`): which type DuckDB gives them, and whether it may read them itself.

If DuckDB reads them, they cost nothing, and it knows their statistics. It parses every folder of a path by its own
rules, including the table's root, so it may do so only if each path can be read in only one way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import compute, positions
from pruner_duckdb.read.native import folded
from pruner_duckdb.sql.engine_faults import NULL_IS_NO_TEXT
from pruner_duckdb.types import file_name, sql_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.tables.snapshot import Snapshot

_TEXT = "VARCHAR"
_BYTES = "BLOB"
_INSTANT = "TIMESTAMP WITH TIME ZONE"
_OF_YEARS = frozenset(["DATE", "TIMESTAMP", _INSTANT])
_CLOCK = r"\d+-\d+-\d+([ T]\d+:\d+(:\d+(\.\d*)?)?)?"
"""A timestamp without a time zone."""

_EARLIER = f"""system.main.list_transform({{}}, lambda pruner_text: CASE
    WHEN NOT system.main.regexp_full_match(pruner_text, '{_CLOCK}') THEN pruner_text::{_INSTANT}
    {{}}
    ELSE pruner_text::{_INSTANT} END)"""
_SET_BACK = f"""WHEN (pruner_text::{_INSTANT} - INTERVAL '{{0}} minutes')::TIMESTAMP = pruner_text::TIMESTAMP
    THEN pruner_text::{_INSTANT} - INTERVAL '{{0}} minutes'"""
_CLOCKS_GO_BACK = (120, 60, 30)
"""Minutes by which clocks are set back at the end of daylight saving time."""
_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_NO_PARTITION = r"=[^/]*=|[?\n]"
"""Matches a path that may have a folder with `=` that DuckDB does not take for a partition."""

_DAY = r"[12]\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])"
_TIME = r"([01]\d|2[0-3])(:|%3A)[0-5]\d(:|%3A)[0-5]\d(\.\d{1,6})?"
_SURE = re.compile(rf"0|[1-9]\d{{0,17}}|{_DAY}|{_DAY}([ T]|%20){_TIME}", re.ASCII)
"""Numbers, dates and timestamps whose type does not depend on their digits; DuckDB sees them with their escapes."""

_DIGIT = re.compile(r"(?<!%)\d")
_MOST_EXAMPLES = 1_000
_NO_COLUMN = "pruner_none"

_FOLDERS = re.compile(
    r"""
    (?: (?: [^=%/\\?\n]+ = (?: [^=%/\\?\n] | %[2-7][0-9A-Fa-f] )*   # key=value
          | [^=/\\?\n]*                                            # any other folder
        ) / )*
    """,
    re.VERBOSE,
)
"""Folders that every reader parses alike: a key without escapes, a value without escapes beyond ASCII."""


def folder_types(snapshot: Snapshot, run: duckdb.DuckDBPyConnection) -> dict[tuple[str, ...], str]:
    """Return the type that DuckDB gives each partition column; those that it sees in no folder are left out.

    Args:
        snapshot: of a Parquet table.
        run: a connection that can read local files.
    """
    partitions = snapshot.partitions
    unseen = _unseen(snapshot)
    types = {
        path: sql_type(values.type) or _TEXT
        for path, values in partitions.values.items()
        if path[0] not in unseen
    }
    # DuckDB gives canonical numbers and dates, and what is certain to be text, the usual types; it looks at texts as
    # written, including escapes.
    escapes = _any_has(partitions.paths, "%")
    open_questions = [
        path
        for path, data_type in types.items()
        if escapes or (data_type == _TEXT and path not in partitions.trusted | partitions.shared)
    ]
    if open_questions:
        shown = _shown(snapshot, run)
        types.update((path, shown.get(folded(path[0]), _TEXT)) for path in open_questions)
    return types


def folder_values(
    snapshot: Snapshot,
    partitions: NDArray[np.intp],
    path: tuple[str, ...],
    data_type: str,
    *,
    as_written: bool,
) -> list[str | None]:
    """Values of partitions as text that DuckDB casts to the values that it shows.

    Args:
        snapshot: the snapshot.
        partitions: ordinals of its partitions.
        path: of the partition column.
        data_type: DuckDB's type of the column.
        as_written: whether DuckDB would read them from the names of folders. There `null`, in any case but without
            escapes, is NULL: in 1.5 for every type, in 2.0 for all but text (measured).
    """
    places = positions(partitions)
    if snapshot.partitions.texts is not None:
        texts: list[Any] = snapshot.partitions.texts[path].take(places).to_pylist()
        # An empty text is NULL, whatever the type.
        return [_as_cast(text, data_type) if text else None for text in texts]
    values = snapshot.partitions.values[path].take(places).cast(pa.string()).to_pylist()
    if not as_written or (data_type == _TEXT and not NULL_IS_NO_TEXT):
        return [None if value is None else str(value) for value in values]
    folders: list[Any] = snapshot.partitions.paths.take(places).to_pylist()
    return [
        None if value is None or _says_null(folder, path[0]) else str(value)
        for value, folder in zip(values, folders, strict=True)
    ]


def _as_cast(text: str, data_type: str) -> str:
    """A text of the log as DuckDB casts it: Spark puts a plus before years after 9999, which DuckDB does not know."""
    if data_type == _BYTES:
        return _escaped(text)
    return text.removeprefix("+") if data_type in _OF_YEARS else text


def _escaped(text: str) -> str:
    """The bytes of a text as DuckDB casts them: it accepts only ASCII bytes unescaped."""
    return "".join(f"\\x{byte:02X}" for byte in text.encode())


def from_texts(texts: str, values: Sequence[str | None], data_type: str) -> str:
    """An expression that casts a list of texts to a list of another type.

    Args:
        texts: the list in SQL.
        values: its elements.
        data_type: DuckDB's type of the elements.
    """
    if data_type != _INSTANT or not _has_clocks(values):
        return f"{texts}::VARCHAR[]::{data_type}[]"
    # A local time that occurs twice when daylight saving time ends is the first one for Spark, the second for DuckDB.
    cases = " ".join(_SET_BACK.format(minutes) for minutes in _CLOCKS_GO_BACK)
    return _EARLIER.format(f"{texts}::VARCHAR[]", cases)


def from_text(bind: Callable[[Any], str], value: str | None, data_type: str) -> str:
    """The same for one text, bound as a parameter."""
    if data_type == _INSTANT and _has_clocks([value]):
        return f"({from_texts(bind([value]), [value], data_type)})[1]"
    return f"{bind(value)}::{data_type}"


def _has_clocks(values: Iterable[str | None]) -> bool:
    return any(value is not None and re.fullmatch(_CLOCK, value) for value in values)


def as_in_folders(snapshot: Snapshot, types: Mapping[tuple[str, ...], str]) -> bool:
    """Tell whether DuckDB would read the same values from the names of the folders as the log has.

    Args:
        snapshot: the snapshot; its partitions have `texts`.
        types: of its partition columns.
    """
    texts = snapshot.partitions.texts
    if not texts or not types or set(types) != set(texts) or not parsed_alike(snapshot, types):
        return False
    paths: Any = snapshot.partitions.paths
    below = paths.take(positions(snapshot.partition_ordinals))
    named: Any = compute.binary_join_element_wise(
        snapshot.root, below, snapshot.columns.column("file_id"), "/"
    )
    if not compute.all(compute.equal(named, snapshot.columns.column("base_file"))).as_py():
        return False  # the partitions and the folders have different names
    if any(
        types[path] == _BYTES
        or (types[path] in _OF_YEARS and compute.any(compute.starts_with(column, "+")).as_py())
        or (types[path] == _INSTANT and _has_clocks(column.to_pylist()))
        for path, column in texts.items()
    ):
        return False
    folders: list[Any] = paths.to_pylist()
    for path, column in texts.items():
        for folder, text in zip(folders, column.to_pylist(), strict=True):
            parts = [part for part in folder.split("/") if _key(part) == path[0]]
            value = unquote(parts[0].partition("=")[2]) if len(parts) == 1 else ""
            # For DuckDB these are NULL, even where the log has a text.
            read = None if value == _NULL_FOLDER else value
            if read != text or value.lower() in ("null", ""):
                return False
    return True


def _says_null(folder: str, key: str) -> bool:
    return any(part.lower().endswith("=null") and _key(part) == key for part in folder.split("/"))


def _unseen(snapshot: Snapshot) -> set[str]:
    """The keys that DuckDB finds in none of the used folders: to it, `k=x=y` and `k=x?y` are plain folders."""
    if not compute.any(compute.match_substring_regex(snapshot.partitions.paths, _NO_PARTITION)).as_py():
        return set()
    used = np.unique(snapshot.partition_ordinals)
    folders: list[Any] = snapshot.partitions.paths.take(positions(used)).to_pylist()
    parts = {part for folder in folders for part in folder.split("/") if "=" in part}
    plain = {part for part in parts if part.count("=") > 1 or "?" in part or "\n" in part}
    return {_key(part) for part in plain} - {_key(part) for part in parts - plain}


def _key(part: str) -> str:
    return unquote(part.partition("=")[0])


def _shown(snapshot: Snapshot, run: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Types by folded name as DuckDB shows them over one file of each folder: it opens only the first one."""
    files = _one_of_each(snapshot)
    try:
        if "://" not in snapshot.root:
            return _described(files, run)
        with TemporaryDirectory() as place:
            return _described(_folders_alike(place, files), run)
    except (duckdb.Error, OSError, ValueError):  # names that no file system accepts raise ValueError
        return {}


def _described(files: Sequence[str], run: duckdb.DuckDBPyConnection) -> dict[str, str]:
    described = run.execute(
        "DESCRIBE FROM read_parquet(?, hive_partitioning = true)", [[file_name(uri) for uri in files]]
    ).fetchall()
    return {folded(str(row[0])): str(row[1]) for row in described}


def _folders_alike(place: str, objects: Sequence[str]) -> list[str]:
    """Create local folders named like those of objects, which this DuckDB cannot reach, with a file in each.

    Values that are certain to have the same type share one example, and folders of different keys are combined in the
    order in which they occur.

    Raises:
        OSError: they cannot be created, or are too many.
    """
    kinds: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for uri in objects:
        steps = uri.partition("://")[2].split("/")[:-1]
        if ".." in steps:
            raise OSError("a local folder of that name would be another one")
        examples = kinds.setdefault(tuple(map(_kind_of_step, steps)), [{} for _ in steps])
        for known, step in zip(examples, steps, strict=True):
            known.setdefault(_kind_of_value(step), step)
    files: list[str] = []
    for examples in kinds.values():
        values = [list(known.values()) for known in examples]
        for number in range(max(map(len, values))):
            steps = (each[number % len(each)] for each in values)
            files.append("/".join([place, *steps, f"{len(files)}.parquet"]))
    if len(files) > _MOST_EXAMPLES:
        raise OSError(f"{len(files)} folders are too many")
    for file in files:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).touch()
    parquet: Any = pq
    parquet.write_table(pa.table({_NO_COLUMN: pa.array([], pa.int8())}), files[0])
    return files


def _kind_of_step(step: str) -> str:
    """The same text for two path steps if DuckDB finds the same key in both, or none in either."""
    return f"{step.partition('=')[0]}{step.count('=')}{'?' in step}" if "=" in step else ""


def _kind_of_value(step: str) -> str:
    """The same text for two steps with one key if DuckDB is certain to see the same type in their values."""
    key, separator, value = step.partition("=")
    if not separator:
        return ""
    return key + "=" + (_DIGIT.sub("0", value) if _SURE.fullmatch(value) else value)


def _one_of_each(snapshot: Snapshot) -> list[str]:
    """A base file of each partition that has one, in the order of partitions."""
    rows = np.flatnonzero(snapshot.has_base)
    _, first = np.unique(snapshot.partition_ordinals[rows], return_index=True)
    examples: list[Any] = snapshot.base_files.take(positions(rows[first])).to_pylist()
    return examples


def parsed_alike(snapshot: Snapshot, types: Mapping[tuple[str, ...], str]) -> bool:
    """Tell whether DuckDB finds in every path the keys and texts that the snapshot found, and no key named like another
    column.

    A file may have a column with a key's name: DuckDB gives it the value of the folder.

    Args:
        snapshot: of a Parquet table.
        types: of its partition columns.
    """
    keys = {path[0] for path in types}
    columns = {folded(entry.path[0]) for entry in snapshot.schema.columns}
    if _any_has(snapshot.columns.column("base_file"), "\\"):  # also a path separator
        return False
    used = np.unique(snapshot.partition_ordinals)
    folders: list[Any] = snapshot.partitions.paths.take(positions(used)).to_pylist()
    places = dict.fromkeys(zip(map(_above, _one_of_each(snapshot), folders), folders, strict=True))
    above = {_keys(root) for root, _ in places}
    if len(above) > 1 or any(folded(key) in columns for key in next(iter(above), ())):
        return False
    return all(_is_alike(root, folder, keys) for root, folder in places)


def _any_has(texts: Any, sign: str) -> bool:
    return bool(compute.any(compute.match_substring(texts, sign)).as_py())


def _above(uri: str, folder: str) -> str:
    """The root above a file, given the file's folder below it."""
    place = uri.removeprefix("file://").rpartition("/")[0]
    return place.removesuffix(f"/{folder}") if folder else place


def _keys(path: str) -> tuple[str, ...]:
    return tuple(part.partition("=")[0] for part in path.split("/") if "=" in part)


def _is_alike(root: str, folder: str, keys: set[str]) -> bool:
    if any(sign in root for sign in "%?\n") or _FOLDERS.fullmatch(f"{folder}/") is None:
        return False
    key_values = _keys(folder)
    return len(key_values) == len(keys) and set(key_values) == keys
