"""The plugin's jar, which a wheel brings; `python -m pruner_trino` prints where it is."""

from __future__ import annotations

from pathlib import Path

from pruner.errors import PrunerError

PLUGIN_JAR = Path(__file__).parent / "plugin" / "lake-pruner-trino.jar"


def plugin_jar() -> Path:
    """Return the jar to copy into Trino's plugin folders (docs/trino.md).

    Raises:
        PrunerError: this installation is a checkout in which the jar was not built, or a wheel that was made in one.
    """
    if not PLUGIN_JAR.is_file():
        raise PrunerError(
            f"this installation has no {PLUGIN_JAR.name}: run `make trino-plugin` in a checkout of lake-pruner "
            "(it needs a full JDK 25); a wheel built afterwards brings the jar"
        )
    return PLUGIN_JAR
