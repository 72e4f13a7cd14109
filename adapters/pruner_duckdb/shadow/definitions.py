"""After which statements every function, type and setting of a session still means what it does in a new DuckDB.

A session in which nothing else ran understands a statement as the databases do that plan for it, so that it need not
be asked. Only statements that are known to define nothing are taken for such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

EXTENSIONS: Final = (
    "SELECT coalesce(system.main.string_agg(extension_name, ',' ORDER BY extension_name), '') "
    "FROM system.main.duckdb_extensions() WHERE loaded"
)
"""Names of the extensions that a database has loaded."""

_SETTINGS: Final = (
    r"timezone|(?:worker_|external_)?threads|memory_limit|max_memory|temp_directory|max_temp_directory_size|"
    r"preserve_insertion_order|enable_progress_bar|enable_progress_bar_print|progress_bar_time|enable_object_cache|"
    r"parquet_metadata_cache|enable_external_file_cache|enable_http_metadata_cache|http_(?:timeout|retries|keep_alive)"
)
"""Settings that give no statement another meaning; of the zone a plan takes account."""

_DEFINES_NOTHING: Final = re.compile(
    rf"""\s*(?:
        (?:select|with|from|values|table|insert|update|delete|copy|truncate|describe|desc|show|summarize)\b
        | (?:begin|start|commit|end|abort|rollback|checkpoint|vacuum|analyze|append|drop)\b
        | create\s+(?:or\s+replace\s+)?(?:(?:temp|temporary|unique)\s+)?(?:table|view|schema|sequence|index)\b
        | (?:set|reset)\s+(?:(?:session|local|global)\s+)?(?:{_SETTINGS}|time\s+zone)\b
    )[^;]*;?\s*$""",
    re.IGNORECASE | re.VERBOSE,
)
_TAKES_DEFINITIONS: Final = re.compile(r"\s*(?:copy\s+from\s+database|update\s+extensions)\b", re.IGNORECASE)
"""Another database has macros and types as well."""


def defines_nothing(text: str) -> bool:
    """Tell whether a statement surely leaves all functions, types and settings with a meaning as they are.

    Args:
        text: SQL, or the name of a method of DuckDB's connection; empty where a data frame gets a name.
    """
    return not text or (_DEFINES_NOTHING.match(text) is not None and not _TAKES_DEFINITIONS.match(text))


def are_harmless(settings: Iterable[str]) -> bool:
    """Tell whether a database may be opened with these settings without any statement meaning another thing."""
    return all(re.fullmatch(_SETTINGS, name, re.IGNORECASE) for name in settings)
