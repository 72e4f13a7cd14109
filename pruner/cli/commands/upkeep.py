"""The commands that check and keep what is stored: doctor, verify, compact, vacuum, uninstall.

`pruner doctor`: whether everything that pruning and building need is in order, and what to do where it is not.
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Final

import typer

from pruner.cli.failures import FAILURE, WRONG_USAGE, complain, fail_with
from pruner.cli.options import Output, OutputOption, on_table
from pruner.cli.output import print_json, printable, write_line
from pruner.showing.words import counted, data_size

if TYPE_CHECKING:
    from pruner.maintenance.doctor import Finding
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
            f"{counted(kept.files, 'file')} out of use, {data_size(kept.bytes)}, {stay} for running reads and "
            f"builds until {kept.until:%Y-%m-%d %H:%M} UTC; --older-than 1h takes what is older than an hour now"
        )


def _seconds(text: str) -> float:
    """A duration as people write it: `90s`, `30m`, `12h`, `7d`."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(
            f"{text!r} is not an age: write a number and s, m, h or d, such as 12h", param_hint="--older-than"
        )
    return float(match["number"]) * _UNITS[match["unit"]]


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


@on_table
def doctor(table: Table, output: OutputOption = Output.TEXT) -> None:
    """Test everything that pruning relies on: listing, reading, writing, clocks, versions, indexes."""
    from pruner.cli.commands.engine_probes import probe_engines

    findings: list[Finding] = []
    for finding in chain(table.diagnose(), probe_engines(table)):
        findings.append(finding)
        if output is Output.TEXT:
            write_line(_line(finding))
    if output is Output.JSON:
        listed = [asdict(finding) for finding in findings]
        print_json({"table": table.uri, "index_uri": table.index_uri, "findings": listed})
    if any(finding.level == "failure" for finding in findings):
        raise typer.Exit(FAILURE)


def _line(finding: Finding) -> str:
    text = f"{finding.level:<7}  {finding.probe}: {finding.found}"
    return printable(text if finding.remedy is None else f"{text}. To do: {finding.remedy}")
