"""The words for display: files of a Parquet table, file groups of a Hudi table, and slices of neither."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pruner.showing.words import data_size
from tests.unit.cli.conftest import Run

COMMANDS = (
    ("status",),
    ("plan", "--where", "{column} IS NOT NULL"),
    ("explain", "--where", "{column} IS NOT NULL"),
    ("explain", "--where", "{column} IS NOT NULL", "--html", "-"),
    ("refresh", "--dry-run"),
    ("refresh",),
    ("map", "--history"),
    ("doctor",),
)


def outputs(run: Run, table: object, column: str) -> str:
    created = run("sql", f"CREATE INDEX words ON '{table}' ({column})")
    assert created.code == 0, created.err
    printed = [created.out]
    for command, *options in COMMANDS:
        ran = run(command, table, *(each.format(column=column) for each in options))
        printed.append(ran.out + ran.err)
    found = run("query", f"SELECT count(*) FROM t WHERE {column} IS NOT NULL", "--table", f"t={table}")
    return "\n".join((*printed, found.out, found.err))


def test_a_size_has_three_digits_and_the_unit_that_fits() -> None:
    sizes = {
        0: "0 B",
        999: "999 B",
        1_000: "1.00 kB",
        9_994: "9.99 kB",
        9_996: "10.0 kB",
        99_960: "100 kB",
        999_499: "999 kB",
        999_500: "1.00 MB",
        5_100_000: "5.10 MB",
        41_260_000_000: "41.3 GB",
        1.5e12: "1.50 TB",
        2e18: "2,000 PB",
    }
    assert {size: data_size(size) for size in sizes} == sizes


@pytest.mark.slow
def test_a_parquet_table_has_files(run: Run, flights: Path) -> None:
    text = outputs(run, flights, "delay")
    assert not re.search(r"\bslices?\b|file group", text, re.IGNORECASE)
    assert "index words created: 4 files indexed" in text
    assert re.search(r"^files +4, of which 4 can be indexed$", text, re.MULTILINE)
    assert "kept       4 of 4 files, " in text
    assert "t: 0 of 4 files read, 0 B of " in text
    assert "answered from metadata: 4 of 4 files" in text


@pytest.mark.spark
def test_a_hudi_table_has_file_groups(run: Run, hudi_table: Callable[[str], Path]) -> None:
    text = outputs(run, hudi_table("cow_v9"), "id")
    assert not re.search(r"(?<!file )\bslices?\b", text, re.IGNORECASE)
    assert re.search(r"index words created: \d+ file groups indexed", text)
    assert re.search(r"^file groups \d+, of which \d+ can be indexed$", text, re.MULTILINE)
    assert re.search(r"kept       (\d+) of \1 file groups, ", text)
