"""How hard property tests try: `quick`, `default`, `fuzz` and `soak`, chosen by `PRUNER_TEST_PROFILE`.

A property asks `examples(n)` how many examples to run, so that one variable scales them all.
"""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

NAME: Final = os.environ.get("PRUNER_TEST_PROFILE", "default")
REQUESTED: Final = int(os.environ.get("PRUNER_FUZZ_N", "2000"))
QUICK_SHARE: Final = 5


def examples(usual: int = 100) -> int:
    """Return how many examples a property runs that runs `usual` ones in `make test`."""
    if NAME == "quick":
        return max(1, usual // QUICK_SHARE)
    return usual if NAME == "default" else max(usual, REQUESTED)


def load() -> None:
    """Make Hypothesis use the chosen profile; a failing example always prints how to repeat it."""
    for name in ("quick", "default", "fuzz", "soak"):
        settings.register_profile(
            name,
            deadline=None,
            print_blob=True,
            max_examples=examples(),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        )
    settings.load_profile(NAME)
