"""Trino over pruned tables: its predicates decoded for the service, and a preview of what would be pruned."""

from __future__ import annotations

from pathlib import Path

from pruner.errors import PrunerError
from pruner_trino.decode import decode_request
from pruner_trino.previewing import ScanPreview, preview

__all__ = ["ScanPreview", "decode_request", "plugin_jar", "preview"]

engine = "trino"

_PLUGIN_JAR = Path(__file__).parent / "plugin" / "lake-pruner-trino.jar"
"""Where a wheel installs the plugin; `python -m pruner_trino` prints this path."""


def plugin_jar() -> Path:
    """Return the jar to copy into Trino's plugin folders (docs/trino.md).

    Raises:
        PrunerError: this installation is, or was made from, a checkout in which the jar was not built.
    """
    if not _PLUGIN_JAR.is_file():
        raise PrunerError(
            f"this installation has no {_PLUGIN_JAR.name}: it comes with a wheel that `make wheel` built in a checkout "
            "of lake-pruner (which needs a full JDK 25), and not with the sources or another wheel"
        )
    return _PLUGIN_JAR
