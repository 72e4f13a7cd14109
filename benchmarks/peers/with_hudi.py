"""hudi-rs over a Hudi table of as many file groups, with a filter on a data column; the table is opened once.

Its own columns: the table has no statistics of data columns, and hudi-rs would not use them. The conjunction is on a
partition and a data column.
"""

from __future__ import annotations

from pathlib import Path

from harness import Plans, answer_questions
from hudi import HudiReadOptions, HudiTable


def prepare(_: Path, folder: Path) -> Plans:
    """Open the table that the benchmark wrote."""
    table = HudiTable(str(folder / "hudi"))

    def plan(kind: str, values: list[int]) -> int:
        if kind == "conjunction":
            filters = [("city", "=", "c001"), ("id", ">", str(values[0]))]
        else:
            filters = [("id", ">=", str(values[0])), ("id", "<=", str(values[1]))]
        return len(table.get_file_slices(HudiReadOptions(filters=filters)))

    return plan


answer_questions(prepare)
