"""`pruner doctor`: whether everything that pruning and building need is in order, and what to do where it is not."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING

import typer

from pruner.cli.failures import FAILURE
from pruner.cli.options import Output, OutputOption, on_table
from pruner.cli.output import print_json, printable, write_line

if TYPE_CHECKING:
    from pruner.maintenance.doctor import Finding
    from pruner.table import Table


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
