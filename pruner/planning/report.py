"""A plan as JSON and as text. The JSON is documented field by field in docs/report.md; `format` counts its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.planning.plan import FileDetail, Plan

REPORT_FORMAT = 1

SHOWN_PREDICATE = 2000
"""Characters of a predicate that the text for people shows; the JSON has it whole."""


def report_dict(plan: Plan) -> dict[str, Any]:
    """The summary of a plan as plain values, ready for JSON."""
    return {
        "format": REPORT_FORMAT,
        "table": plan.snapshot.root,
        "snapshot_id": plan.snapshot_id,
        "predicate": plan.predicate,
        "semantics": {
            "engine": plan.semantics.engine,
            "version": plan.semantics.version,
            "zone": plan.semantics.zone,
            "nan_order": plan.semantics.nan_order.value,
            "collation": plan.semantics.collation,
            "scan_mode": plan.semantics.scan_mode,
        },
        "total": plan.total,
        "kept": plan.kept,
        "bytes_total": plan.bytes_total,
        "bytes_kept": plan.bytes_kept,
        "planning_ms": round(plan.planning_seconds * 1000, 3),
        "funnel": [
            {
                "clause": step.clause,
                "index": step.index,
                "using": step.using,
                "considered": step.considered,
                "dropped": step.dropped,
                "uncovered": step.uncovered,
                "note": step.note,
            }
            for step in plan.steps
        ],
        "fallbacks": list(plan.fallbacks),
        "problems": dict(plan.snapshot.problems),
    }


def report_json(plan: Plan, files: FileDetail) -> str:
    """The report as a JSON text, with the slices that `files` asks for.

    Raises:
        ValueError: `files` is not one of summary, kept, dropped, all.
    """
    report = report_dict(plan)
    if files != "summary":
        report["files"] = list(_file_rows(plan, files))
    return msgspec.json.encode(report).decode()


def _file_rows(plan: Plan, files: FileDetail) -> Iterator[dict[str, Any]]:
    match files:
        case "kept":
            chosen = plan.kept_mask
        case "dropped":
            chosen = ~plan.kept_mask
        case "all":
            chosen = np.ones(plan.total, np.bool_)
        case _:
            raise ValueError(f"files must be one of summary, kept, dropped, all, not {files!r}")
    slices = plan.snapshot.slices
    for ordinal in np.flatnonzero(chosen):
        entry = slices[int(ordinal)]
        step = int(plan.dropped_by[ordinal])
        yield {
            "partition_path": entry.partition_path,
            "file_id": entry.file_id,
            "base_file": entry.base_file,
            "log_files": list(entry.log_files),
            "size": entry.size,
            "kept": bool(plan.kept_mask[ordinal]),
            "why": _why(plan, int(ordinal), step),
        }


def _why(plan: Plan, ordinal: int, step: int) -> str:
    if step:
        dropped = plan.steps[step - 1]
        return f"dropped by {dropped.index}: no row can satisfy {dropped.clause}"
    if not plan.snapshot.coverable[ordinal]:
        return "kept: it is unsettled or unreadable"
    blind = [s.clause for s in plan.steps if s.note is not None or s.uncovered == s.considered]
    if len(blind) == len(plan.steps):
        return "kept: no index could answer for any clause"
    return "kept: a row may match"


def report_text(plan: Plan) -> str:
    """The report as text for people: the outcome, the funnel, what could not be used."""
    lines = [
        f"table      {plan.snapshot.root}",
        f"predicate  {_shortened(plan.predicate)}",
        f"semantics  {plan.semantics.engine}, scan mode {plan.semantics.scan_mode}, "
        f"zone {plan.semantics.zone or 'unknown'}",
        f"kept       {plan.kept:,} of {plan.total:,} slices, "
        f"{_megabytes(plan.bytes_kept)} of {_megabytes(plan.bytes_total)}, "
        f"planned in {plan.planning_seconds * 1000:.2f} ms",
    ]
    if plan.steps:
        lines += ["", f"{'left':>10} {'dropped':>10} {'uncovered':>10}  index: clause"]
    for step in plan.steps:
        lines.append(
            f"{step.considered - step.dropped:>10,} {step.dropped:>10,} {step.uncovered:>10,}"
            f"  {step.index}: {step.clause}" + (f"  ({step.note})" if step.note else "")
        )
    lines += [f"note: {reason}" for reason in plan.fallbacks]
    lines += [f"problem: {sentence}" for sentence in plan.snapshot.problems.values()]
    return "\n".join(lines)


def _shortened(predicate: str) -> str:
    if len(predicate) <= SHOWN_PREDICATE:
        return predicate
    return f"{predicate[:SHOWN_PREDICATE]}… ({len(predicate):,} characters)"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.2f} MB"
