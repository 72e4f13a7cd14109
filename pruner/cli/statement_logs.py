"""What a log of statements says, in the forms in which engines write one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pruner.cli.spark_logs import is_spark_event, predicates_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_READS_FILES = re.compile(
    r"(?:read_parquet|parquet_scan)\s*\(\s*'([^']+)'[^()]*\)|(?<=\bfrom)\s+'([^']+)'|(?<=\bjoin)\s+'([^']+)'",
    re.IGNORECASE,
)
"""How DuckDB reads files by their names."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One thing that a log asks: a statement, or (`place` is set) a predicate over the table at a place."""

    text: str
    place: str | None = None


def asked_in(log: str) -> Iterator[Asked]:
    """What a log asks, once for each time.

    Understood are one statement on each line; JSON objects on a line each, with the statement as `query` or (Trino's
    event listeners) as `metadata.query`; a profile of DuckDB; an event log of Spark.
    """
    profile = _object(log)
    if profile is not None:
        yield from _statement(profile)
        return
    for line in log.splitlines():
        record = _object(line)
        if record is None:
            text = line.strip()
            if text and not text.startswith("--"):
                yield Asked(text)
        elif is_spark_event(record):
            yield from (Asked(predicate, place) for place, predicate in predicates_of(record))
        else:
            yield from _statement(record)


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _statement(record: Mapping[str, Any]) -> Iterator[Asked]:
    """The statement of a record: `query` of ours and Trino's, `query.sql` and `query_name` of DuckDB's profiles."""
    inner = record.get("query") or record.get("query_name") or record.get("metadata")
    if isinstance(inner, str):
        yield Asked(inner)
    elif isinstance(inner, dict):
        told = cast("dict[str, Any]", inner)
        yield from _statement({"query": told.get("sql") or told.get("query")})


def with_name(statement: str, root: str, name: str) -> str:
    """A statement that reads a table by its bare name in place of a longer one, and of a path or glob of its files."""

    def named(match: re.Match[str]) -> str:
        path = next(each for each in match.groups() if each)
        return f' "{name}"' if _folder(path) == root else match[0]

    bare = re.escape(name)
    qualified = re.compile(rf'(?:(?:"[^"]+"|\b[A-Za-z_]\w*)\.){{1,2}}(?:"{bare}"|{bare}\b)', re.IGNORECASE)
    return qualified.sub(lambda _: f'"{name}"', _READS_FILES.sub(named, statement))


def _folder(path: str) -> str:
    """The folder of a glob, or of the files in it."""
    from pathlib import Path

    fixed = re.split(r"[*?\[]", path, maxsplit=1)[0]
    if fixed != path or path.endswith(".parquet"):
        fixed = fixed.rpartition("/")[0]
    return fixed.rstrip("/") if "://" in fixed else str(Path(fixed).absolute())
