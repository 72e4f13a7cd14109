"""The command line, `pruner` (docs/cli.md): JSON is stable, text is for people and may change."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit: 0, 1 for a failure, 2 for wrong usage."""
    from pruner.cli.app import app

    app(prog_name="pruner")
