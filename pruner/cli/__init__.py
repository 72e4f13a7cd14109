"""The command line, `pruner` (docs/cli.md): JSON is stable, text is for display and may change."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit: 0, 1 for a failure, 2 for wrong usage."""
    try:
        from pruner.cli.app import app

        app(prog_name="pruner")
    except KeyboardInterrupt:
        # Ctrl-C while modules are loaded or before a command starts; later, each command says what has been completed.
        sys.stderr.write("error: stopped\n")
        sys.exit(130)
