"""What the user sees when something fails: one sentence on standard error, and the exit code."""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from pruner.cli.output import printable
from pruner.errors import PredicateError, PrunerError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILURE = 1
"""Exit code when the request could not be fulfilled, in whole or in part."""

WRONG_USAGE = 2
"""Exit code when the command line, a predicate or a statement cannot be understood."""

TRACEBACK_VARIABLE = "PRUNER_TRACEBACK"
"""Environment variable that turns on tracebacks, as `--traceback` does."""


class PrunerGroup(TyperGroup):
    """All commands, with one place that turns exceptions into a sentence and an exit code."""

    show_traceback = False

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and exit."""
        self.show_traceback = os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
            sys.stdout.flush()
        except BrokenPipeError:
            code = _reader_is_gone()
        except Exception as error:
            code = self._report(error)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:
            # Native libraries raise panics that are not an `Exception`.
            code = self._report(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; when it is stopped by Ctrl-C, say what has been completed."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            complain("; ".join(["stopped", *getattr(stopped, "__notes__", ())]))
            raise

    def _report(self, error: BaseException) -> int:
        if self.show_traceback:
            traceback.print_exception(error)
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{error}\n")
            return WRONG_USAGE
        sentence, code = describe(error)
        complain(sentence)
        return code


def describe(error: BaseException) -> tuple[str, int]:
    """The sentence and the exit code for an exception."""
    match error:
        case typer.TyperException():
            return error.format_message().replace("Value error, ", "", 1) + _meant(error), WRONG_USAGE
        case typer.Abort():
            return "stopped: nothing was done", FAILURE
        case PrunerError():
            from pruner.ddl.tokens import StatementError  # only few commands parse statements

            is_usage = isinstance(error, (PredicateError, StatementError))
            sentence = "; ".join([str(error), *getattr(error, "__notes__", ())])
            return sentence, WRONG_USAGE if is_usage else FAILURE
        case _:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return f"unexpected {what} (pruner --traceback … shows where)", FAILURE


def _meant(error: typer.TyperException) -> str:
    """What an argument too many was probably meant for: a predicate, where the command takes one by its option."""
    context: Any = getattr(error, "ctx", None)
    if context is None or "unexpected extra argument" not in error.format_message():
        return ""
    takes = any("--where" in parameter.opts for parameter in context.command.params)
    return '; a predicate is given as --where "…"' if takes else ""


def complain(sentence: str) -> None:
    """Write one line to standard error."""
    sys.stderr.write(f"error: {printable(' '.join(sentence.split()))}\n")


def fail_with(sentences: Sequence[str]) -> None:
    """Write one line for each sentence and exit with `FAILURE`; do nothing if there are none."""
    for sentence in sentences:
        complain(sentence)
    if sentences:
        raise typer.Exit(FAILURE)


def _reader_is_gone() -> int:
    """Redirect standard output to the null device: at exit, Python would report the flush of a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILURE
