"""A plan as a DataFrame of DataFusion, which reads the files by a Dataset of pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import datafusion

from pruner_python import arrow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner import Plan

engine = "datafusion"


def scan(
    plan: Plan, columns: Sequence[str] | None, storage_options: Mapping[str, str], into: Any = None
) -> Any:
    """The files of a plan in a session context: see `pruner.adapters.FileScanner`."""
    context: Any = datafusion.SessionContext() if into is None else into
    return context.read_table(arrow.scan(plan, columns, storage_options))
