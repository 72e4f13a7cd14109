"""The commands about what is stored of a table's indexes: verify, compact, vacuum, uninstall."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pruner.cli.failures import WRONG_USAGE, complain, fail_with
from pruner.cli.options import Output, OutputOption, on_table
from pruner.cli.output import megabytes, print_json, printable, write_line
from pruner.showing.words import counted

if TYPE_CHECKING:
    from pruner.table import Table

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_DURATION: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[smhd])")

FilesOption = Annotated[
    bool,
    typer.Option("--files", help="Also name files that changed in place since they were indexed."),
]
OlderThanOption = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="AGE",
        help="Delete what has been out of use for longer: 30m, 12h, 7d (default).",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@on_table
def verify(
    table: Table,
    files: FilesOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check the stored indexes against their checksums."""
    faults = table.verify(files=files)
    if output is Output.JSON:
        print_json({"table": table.uri, "index_uri": table.index_uri, "faults": faults})
    elif not faults:
        write_line(f"{printable(table.index_uri)}: no faults")
    fail_with(faults)


@on_table
def compact(
    table: Table,
    output: OutputOption = Output.TEXT,
) -> None:
    """Merge the small index files that many refreshes leave."""
    result = table.compact()
    if output is Output.JSON:
        print_json({"table": table.uri, "index_uri": table.index_uri, **asdict(result)})
    else:
        write_line(
            f"{printable(table.index_uri)}: {counted(result.before, 'segment')} before, {result.after:,} now"
        )


@on_table
def vacuum(
    table: Table,
    older_than: OlderThanOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete index files that are out of use."""
    grace = {} if older_than is None else {"grace_seconds": _seconds(older_than)}
    deleted = table.vacuum(**grace)
    kept = table.out_of_use(**grace)
    if output is Output.JSON:
        until = None if kept.until is None else kept.until.isoformat()
        told = {"files": kept.files, "bytes": kept.bytes, "until": until}
        print_json({"table": table.uri, "index_uri": table.index_uri, "deleted": deleted, "kept": told})
        return
    write_line(f"{printable(table.index_uri)}: {counted(deleted, 'file')} deleted")
    if kept.until is not None:
        stay = "stays" if kept.files == 1 else "stay"
        write_line(
            f"{counted(kept.files, 'file')} out of use, {megabytes(kept.bytes)}, {stay} for running reads and "
            f"builds until {kept.until:%Y-%m-%d %H:%M} UTC; --older-than 1h takes what is older than an hour now"
        )


def _seconds(text: str) -> float:
    """A duration as people write it: `90s`, `30m`, `12h`, `7d`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not an age: write a number and s, m, h or d, such as 12h", param_hint="--older-than"
        )
    return float(found["number"]) * _UNITS[found["unit"]]


@on_table
def uninstall(
    table: Table,
    yes: YesOption = False,
    output: OutputOption = Output.TEXT,
) -> None:
    """Delete all indexes, never the table."""
    if not yes:
        if not sys.stdin.isatty():
            complain(
                "nothing is deleted: standard input is not a terminal, so nobody can be asked: pass --yes"
            )
            raise typer.Exit(WRONG_USAGE)
        typer.confirm(f"Delete all indexes in {printable(table.index_uri)}?", abort=True, err=True)
    deleted = table.uninstall()
    if output is Output.JSON:
        print_json({"table": table.uri, "index_uri": table.index_uri, "deleted": deleted})
    else:
        write_line(f"{printable(table.index_uri)}: {'deleted' if deleted else 'nothing is there'}")
