"""The application with all its commands. Nothing imported here may import Arrow: `pruner --help` must not wait for
it.
"""

from __future__ import annotations

from typing import Annotated

import typer

from pruner import __version__
from pruner.cli.commands import (
    advising,
    demo,
    doctor,
    errors,
    indexes,
    inspecting,
    maps,
    notify,
    plans,
    queries,
    serve,
    tables,
    trino_plugin,
    upkeep,
)
from pruner.cli.failures import PrunerGroup
from pruner.cli.usage import epilog

app = typer.Typer(
    name="pruner",
    cls=PrunerGroup,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
First steps:
  pruner demo
  pruner advise TABLE                             which indexes would help
  pruner sql "CREATE INDEX stats ON 'TABLE' (*)"
  pruner explain TABLE --where "delay > 60"       what they leave to read
  pruner COMMAND -h                               options and examples""",
    # Plain help starts faster than a formatted one and needs no terminal to be readable.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for name, command in {
    "demo": demo.demo,
    "sql": indexes.sql,
    "refresh": indexes.refresh,
    "plan": plans.plan,
    "explain": plans.explain,
    "count": plans.count,
    "query": queries.query,
    "serve": serve.serve,
    "tables": tables.tables,
    "status": indexes.status,
    "show-indexes": indexes.show_indexes,
    "advise": advising.advise,
    "map": maps.map_,
    "inspect": inspecting.inspect,
    "doctor": doctor.doctor,
    "trino-plugin": trino_plugin.trino_plugin,
    "errors": errors.errors,
    "notify": notify.notify,
    "verify": upkeep.verify,
    "compact": upkeep.compact,
    "vacuum": upkeep.vacuum,
    "uninstall": upkeep.uninstall,
}.items():
    app.command(name, epilog=epilog(name))(command)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pruner {__version__}")
        raise typer.Exit


@app.callback()
def pruner(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show tracebacks of errors.")] = False,
) -> None:
    """Index a lake table once; read only the files that a predicate leaves."""
    if traceback and isinstance(context.command, PrunerGroup):
        context.command.show_traceback = True
