"""`python -m pruner_trino` prints the path of the plugin's jar."""

from __future__ import annotations

import sys

from pruner.errors import PrunerError
from pruner_trino import plugin_jar


def main() -> None:
    """Print the path of the jar; exit with code 1 and a message if there is none."""
    try:
        print(plugin_jar())
    except PrunerError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
