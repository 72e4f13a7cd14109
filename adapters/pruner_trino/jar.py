"""The plugin's jar, which a wheel brings; `python -m pruner_trino` prints where it is."""

from __future__ import annotations

from pathlib import Path

from pruner.errors import PrunerError

PLUGIN_JAR = Path(__file__).parent / "plugin" / "lake-pruner-trino.jar"


def plugin_jar() -> Path:
    """Return the jar to copy into Trino's plugin folders (docs/trino.md).

    Raises:
        PrunerError: this installation is a checkout in which the jar was not built, or was made from one.
    """
    if not PLUGIN_JAR.is_file():
        raise PrunerError(
            f"this installation has no {PLUGIN_JAR.name}: it comes with a wheel that `make wheel` built in a checkout "
            "of lake-pruner (which needs a full JDK 25), and not with the sources or another wheel"
        )
    return PLUGIN_JAR
