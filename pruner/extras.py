"""What to install where an optional part is missing, in one wording for every message."""

from __future__ import annotations

DISTRIBUTION = "lake-pruner"
DUCKDB_EXTRA = "duckdb"
SPARK_EXTRA = "spark"


def installing(extra: str, distribution: str = DISTRIBUTION) -> str:
    """How to install an extra. No message names a bare `pip install`: the package need not be on the user's index."""
    return f"install the extra {extra!r} of {distribution} (in a checkout: pip install '.[{extra}]')"
