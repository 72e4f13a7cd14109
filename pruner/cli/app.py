"""The application with all its commands. Imports here must not load Arrow: `pruner --help` must not wait for it."""

from __future__ import annotations

from typing import Annotated

import typer

from pruner import __version__
from pruner.cli.commands import advising, demo, errors, indexes, inspecting, plans, queries, serve, upkeep
from pruner.cli.failures import PrunerGroup

# What `pruner COMMAND --help` shows below the options: examples, and the syntax of statements.

_SYNTAX = """
Syntax:
  CREATE [FUNCTION] INDEX [IF NOT EXISTS] name ON table [USING type]
      (column | expression [, ...] | *)
      [WHERE partition predicate] [OPTIONS (key = value, ...)]
  DROP INDEX [IF EXISTS] name [ON table]
  REFRESH INDEX name ON table
  SHOW INDEXES ON table
Types: column_stats (unless given), bitmap, bloom_filter, record_index.
A table is a path or URI in quotes, or a name."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("pruner demo",),
    "sql": (
        """pruner sql "CREATE INDEX stats ON 'lake/flights' (*)\"""",
        """pruner sql "CREATE INDEX tails ON f USING bloom_filter (tail)" --table f=lake/flights""",
        "pruner sql @indexes.sql --dry-run",
    ),
    "refresh": ("pruner refresh lake/flights", "pruner refresh lake/flights --watch --interval 60"),
    "plan": (
        """pruner plan lake/flights --where "carrier = 'AA' AND delay > 60\"""",
        """pruner plan lake/flights --where "delay > 60" --files kept --output json""",
    ),
    "explain": (
        """pruner explain lake/flights --where "carrier = 'AA' AND delay > 60\"""",
        """pruner explain lake/flights --where "delay > 60" --html plan.html""",
    ),
    "count": ("""pruner count lake/flights --where "carrier = 'AA'\"""",),
    "query": (
        """pruner query "SELECT count(*) FROM f WHERE delay > 60" --table f=lake/flights""",
        "pruner query @report.sql --output csv",
    ),
    "serve": ("pruner serve", "pruner serve --port 9000 --workers 4"),
    "tables": ("pruner tables",),
    "status": ("pruner status lake/flights",),
    "show-indexes": ("pruner show-indexes lake/flights --output json",),
    "advise": (
        "pruner advise lake/flights --log statements.sql",
        "pruner advise lake/flights --log joins.sql --table carriers=lake/carriers",
        "pruner advise lake/flights --budget 60 --sql > indexes.sql",
    ),
    "map": ("pruner map lake/flights --column departure",),
    "inspect": ("pruner inspect lake/flights tails --prefix N1",),
    "doctor": ("pruner doctor lake/flights",),
    "trino-plugin": ("pruner trino-plugin /usr/lib/trino/plugin/hive",),
    "errors": ("""pruner errors "there are no Parquet files in it\"""",),
    "notify": ("pruner notify flights month=1/31.parquet",),
    "verify": ("pruner verify lake/flights --files",),
    "compact": ("pruner compact lake/flights",),
    "vacuum": ("pruner vacuum lake/flights --older-than 12h",),
    "uninstall": ("pruner uninstall lake/flights --yes",),
}
"""Example calls of each command."""


def epilog(command: str) -> str:
    """The text below the options of a command; its lines are not rewrapped."""
    examples = EXAMPLES[command]
    heading = "Example:" if len(examples) == 1 else "Examples:"
    shown = "\n".join((heading, *(f"  {example}" for example in examples)))
    parts = [_SYNTAX.strip(), shown] if command == "sql" else [shown]
    return "\n\n".join(f"\b\n{part}" for part in parts)


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
    # Plain help starts faster than formatted help and is readable without a terminal.
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
    "tables": inspecting.tables,
    "status": indexes.status,
    "show-indexes": indexes.show_indexes,
    "advise": advising.advise,
    "map": inspecting.map_,
    "inspect": inspecting.inspect,
    "doctor": upkeep.doctor,
    "trino-plugin": serve.trino_plugin,
    "errors": errors.errors,
    "notify": serve.notify,
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
