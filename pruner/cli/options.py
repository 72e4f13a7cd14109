"""Arguments and options that several commands share, and the interpretation of their values."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, get_type_hints
from zoneinfo import available_timezones

import typer

from pruner.errors import PredicateError
from pruner.expr.engines import SqlEngine
from pruner.limits import PREDICATE_TEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pruner.catalog.names import Catalog
    from pruner.table import Table


Options = ParamSpec("Options")
"""The options of one command alone."""


class Output(StrEnum):
    """Format of standard output."""

    TEXT = "text"
    JSON = "json"


class RowsFormat(StrEnum):
    """Format of a query's rows on standard output."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class Files(StrEnum):
    """Which slices a plan lists one by one."""

    SUMMARY = "summary"
    KEPT = "kept"
    DROPPED = "dropped"
    ALL = "all"


TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="Path or URI of the table, or its name in pruner.toml.")
]
OutputOption = Annotated[Output, typer.Option("--output", help="text for people, json for programs.")]
IndexUriOption = Annotated[
    str | None,
    typer.Option(
        "--index-uri", metavar="URI", help="Location of the metadata table; beside the table by default."
    ),
]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="KEY=VALUE", help="Option of the store, for example region; repeatable."
    ),
]
NamedTables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME=URI", help="A table and its name in the SQL; repeatable."),
]
WhereOption = Annotated[
    str,
    typer.Option(
        "--where",
        metavar="PREDICATE",
        help="SQL predicate; @FILE reads it from a file, - from standard input.",
    ),
]
DialectOption = Annotated[SqlEngine, typer.Option("--dialect", help="Engine whose SQL and rules apply.")]
ZoneOption = Annotated[
    str | None,
    typer.Option("--zone", metavar="ZONE", help="Time zone of the session, for example Europe/Berlin."),
]
HtmlOption = Annotated[
    str | None,
    typer.Option("--html", metavar="FILE", help="Write a page to this file instead; - is standard output."),
]
AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of",
        metavar="INSTANT",
        help="A past state: a Hudi instant, a Delta version, an Iceberg snapshot id, branch or tag, or a time.",
    ),
]


def on_table(command: Callable[Concatenate[Table, Options], None]) -> Callable[..., None]:
    """Turn a function on one table into a command, with the arguments that select the table.

    The function's first parameter is the opened table; the others are options of the command itself.
    """

    def opened(tables: Catalog, name: str, *args: Options.args, **own: Options.kwargs) -> None:
        command(tables.open(name), *args, **own)

    return _taking_a_table(command, opened, leading=1, others={})


def among_tables(command: Callable[Concatenate[Catalog, str, Options], None]) -> Callable[..., None]:
    """Turn a function on one table among others into a command, with the arguments that name the tables.

    The function's first parameters are the catalog and the table's name; the others are options of the command itself.
    """
    return _taking_a_table(command, command, leading=2, others={"named": NamedTables})


def _taking_a_table(
    command: Callable[..., None],
    call: Callable[Concatenate[Catalog, str, ...], None],
    *,
    leading: int,
    others: dict[str, Any],
) -> Callable[..., None]:
    """A command with the arguments that select a table, and with the options of a function.

    Args:
        command: the function; its options come after its first `leading` parameters.
        call: called with the catalog, the name of the selected table, and those options.
        leading: see `command`.
        others: further arguments that define tables, by name.
    """

    @wraps(command)
    def opening(
        *,
        table: str,
        index_uri: str | None,
        option: list[str] | None,
        named: list[str] | None = None,
        **own: Any,
    ) -> None:
        call(catalog(pairs(named, "--table"), index_uri, option), table, **own)

    own = [*inspect.signature(command).parameters.values()][leading:]
    texts = SimpleNamespace(__annotations__={parameter.name: parameter.annotation for parameter in own})
    types = get_type_hints(texts, vars(sys.modules[command.__module__]), include_extras=True)
    only = inspect.Parameter.KEYWORD_ONLY
    taken = [
        inspect.Parameter("table", only, annotation=TableArgument),
        *(parameter.replace(kind=only, annotation=types[parameter.name]) for parameter in own),
        *(inspect.Parameter(name, only, default=None, annotation=kind) for name, kind in others.items()),
        inspect.Parameter("index_uri", only, default=None, annotation=IndexUriOption),
        inspect.Parameter("option", only, default=None, annotation=StorageOption),
    ]
    # Typer reads both the signature and the annotations.
    vars(opening)["__signature__"] = inspect.Signature(taken)
    opening.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    return opening


def catalog(tables: dict[str, str], index_uri: str | None, options: list[str] | None) -> Catalog:
    """The tables on the command line and in the configuration, opened with the command line's options."""
    from pruner.catalog.config import load
    from pruner.catalog.names import Catalog
    from pruner.catalog.settings import Overrides

    overrides = Overrides(index_uri, pairs(options, "--option"))
    config = load()
    places = Catalog({}, config, overrides)
    opened = {name: places.at(uri) for name, uri in tables.items()}
    return Catalog(opened, config, overrides)


@contextmanager
def saying_how_to_name_tables() -> Generator[None]:
    """Add to the error about an unknown name in SQL which option gives it a table."""
    from pruner.catalog.config import UnknownTableError

    try:
        yield
    except UnknownTableError as error:
        error.add_note(f"pass --table {error.name}=URI")
        raise


def pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """Split `KEY=VALUE` texts; a repeated key is wrong usage."""
    given: dict[str, str] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals:
            example = f"{option} {text}=PATH" if option == "--table" else f"{option} {text}=VALUE"
            raise typer.BadParameter(f"{text!r} has no '=' in it: write {example}", param_hint=option)
        if not key:
            raise typer.BadParameter(f"{text!r} has no key before '='", param_hint=option)
        if key in given:
            raise typer.BadParameter(f"{key!r} is given twice", param_hint=option)
        given[key] = value
    return given


def check_zone(zone: str) -> None:
    """Refuse a text that is not a time zone, if this machine has a time zone database."""
    from pruner.expr.exact.clock import is_known_zone

    if not is_known_zone(zone) and available_timezones():
        advice = "give a name such as Europe/Berlin or an offset such as +02:00"
        raise typer.BadParameter(f"{zone!r} is not a time zone: {advice}", param_hint="--zone")


def given_text(given: str, what: str, option: str) -> str:
    """An SQL text, given directly, in a file (`@FILE`) or on standard input (`-`).

    Args:
        given: the value on the command line.
        what: what the text is, for errors.
        option: the option of the value, for errors.

    Raises:
        PredicateError: the file or standard input is too long or not UTF-8.
        BadParameter: the file cannot be read.

    """
    if given == "-":
        data = sys.stdin.buffer.read(PREDICATE_TEXT_BYTES + 1)
    elif given.startswith("@"):
        try:
            with Path(given[1:]).open("rb") as file:
                data = file.read(PREDICATE_TEXT_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise typer.BadParameter(f"cannot read {given[1:]!r}: {reason}", param_hint=option) from error
    else:
        return given
    if len(data) > PREDICATE_TEXT_BYTES:
        raise PredicateError(f"the {what} is longer than {PREDICATE_TEXT_BYTES:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PredicateError(f"the {what} is not UTF-8: byte {error.start} is none") from error
