"""`python -m pruner_trino` prints the path of the plugin's jar."""

from __future__ import annotations

import sys

from pruner.errors import PrunerError
from pruner_trino import plugin_jar


def main() -> None:
    """Print where the jar is; exit code 1 with a sentence where there is none."""
    try:
        print(plugin_jar())
    except PrunerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
