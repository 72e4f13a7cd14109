"""`pruner notify`: what a writer calls after it changed a table that has a change feed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pruner.cli.options import Output, OutputOption, StorageOption, TableArgument, pairs
from pruner.cli.output import print_json, printable, write_line
from pruner.limits import FEED_FILE_BYTES

PathsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PATH…]",
        help="Files or folders that changed, relative to the root or in full; . is the whole table.",
    ),
]
EventsOption = Annotated[
    str | None,
    typer.Option(
        "--events", metavar="FILE", help="Read S3 event notifications from a file; - is standard input."
    ),
]
FeedOption = Annotated[
    str | None,
    typer.Option(
        "--feed", metavar="URI", help="Location of the change feed; that of pruner.toml by default."
    ),
]


def notify(
    table: TableArgument,
    paths: PathsArgument = None,
    events: EventsOption = None,
    feed: FeedOption = None,
    option: StorageOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Record changes in a table's change feed."""
    from pruner.catalog.names import settings_given
    from pruner.catalog.notify import notify_by

    if events is not None and paths:
        raise typer.BadParameter("give paths or --events, not both", param_hint="--events")
    settings = settings_given(table, feed=feed, storage_options=pairs(option, "--option"))
    event = notify_by(settings, paths or [], None if events is None else _bytes_of(events))
    place = f"{settings.feed}/{event}"
    if output is Output.JSON:
        print_json({"table": settings.uris[0], "event": place})
    else:
        write_line(f"{printable(place)}: written")


def _bytes_of(events: str) -> bytes:
    """The events of a file or of standard input, and one byte more than are allowed at most."""
    if events == "-":
        return sys.stdin.buffer.read(FEED_FILE_BYTES + 1)
    try:
        with Path(events).open("rb") as file:
            return file.read(FEED_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise typer.BadParameter(f"cannot read {events!r}: {reason}", param_hint="--events") from error
