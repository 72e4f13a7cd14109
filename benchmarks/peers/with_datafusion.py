"""DataFusion's listing table over as many files; what it knows of files are their footers.

The files are links to a few, so that statistics could leave out none: what is measured is planning alone.
"""

from __future__ import annotations

from pathlib import Path

from datafusion import SessionContext
from harness import CARRIER, NOT_TOLD, Plans, answer_questions


def prepare(_: Path, folder: Path) -> Plans:
    """Register the tree of files that the benchmark made."""
    context = SessionContext()
    context.register_parquet("events", str(folder / "events"))

    def plan(kind: str, values: list[int]) -> int:
        if kind == "conjunction":
            condition = f"carrier = '{CARRIER}' AND event > {values[0]}"
        else:
            condition = f"event BETWEEN {values[0]} AND {values[1]}"
        context.sql(f"SELECT event FROM events WHERE {condition}").execution_plan()
        return NOT_TOLD

    return plan


answer_questions(prepare)
