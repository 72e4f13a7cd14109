"""How hard property tests try: `quick`, `default`, `fuzz` and `soak`, chosen by `PRUNER_TEST_PROFILE`.

A property asks `examples(n)` how many examples to run, so that one variable scales them all. `quick` and `default`
are the same run everywhere: their seed is written here, and no example depends on what a machine remembers or on
what other tests import. `fuzz` and `soak` look for what is not known yet: each of their runs chooses a new seed.
"""

from __future__ import annotations

import os
import random
from typing import Final

from hypothesis import HealthCheck, core, settings
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

from tests.support.running import constants

NAME: Final = os.environ.get("PRUNER_TEST_PROFILE", "default")
REQUESTED: Final = int(os.environ.get("PRUNER_FUZZ_N", "2000"))
QUICK_SHARE: Final = 30
"""`make quick` runs one example where `make fuzz` runs so many at least."""
DEFAULT_SHARE: Final = 4
"""`make test` and `make faults` run one example where `make fuzz` runs so many at least."""
FEW: Final = 12
"""Where there are no more than these, `make test` runs them all: each costs much, and does much."""
IS_BRIEF: Final = NAME == "quick"
"""Whether this is `make quick`, which leaves cases to `make test` where many go one way."""
IS_FIXED: Final = NAME in ("quick", "default")
"""Whether this run is the same one everywhere."""

FIXED_SEED: Final = 20_260_611


def seed() -> int:
    """Return the seed of a run: the one given as `--hypothesis-seed`, or else a new one where runs may differ."""
    if (given := core.global_force_seed) is not None:
        return int(given)
    return FIXED_SEED if IS_FIXED else random.SystemRandom().randrange(2**32)


def is_same_everywhere() -> bool:
    """Tell whether this run has the examples that every run of its profile has: no other seed was given."""
    return IS_FIXED and seed() == FIXED_SEED


def examples(usual: int = 100) -> int:
    """Return how many examples a property runs of which `make fuzz` runs `usual` ones, or more where it is told."""
    if NAME == "quick":
        return max(1, usual // QUICK_SHARE)
    if NAME == "default":
        return max(usual // DEFAULT_SHARE, min(usual, FEW))
    return max(usual, REQUESTED)


def is_sampled(case: int, one_of: int) -> bool:
    """Tell whether `make quick` runs this case, by its number from 0, of a test of which it runs one of so many.

    Cases are often a product of a few lists, and one place in each row of the product would always be the same case
    of a list. So the place moves by one from row to row.
    """
    row, place = divmod(case, one_of)
    return place == row % one_of


def load() -> None:
    """Make the tests of this process follow the chosen profile.

    Hypothesis prints of a failing example how to repeat it.

    Failures of an earlier run are tried first where new seeds are wanted, never where the run is to be the same.
    `derandomize` is said because Hypothesis switches it on by itself where it finds a CI.
    """
    remembered: ExampleDatabase | None = (
        None if IS_FIXED else DirectoryBasedExampleDatabase(".hypothesis/examples")
    )
    settings.register_profile(
        NAME,
        deadline=None,
        derandomize=False,
        database=remembered,
        print_blob=True,
        max_examples=examples(),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    settings.load_profile(NAME)
    constants.fix(of_the_code=not IS_FIXED)
    if IS_FIXED:
        os.fsync = _only_checked


SYNC: Final = os.fsync
"""The real one: tests of `tests/unit/storage` wait for the disk in `make test`."""


def _only_checked(file: int) -> None:
    """Stand in for `os.fsync`: a fault shows, and nothing waits for the disk.

    What tests write is thrown away, and no test survives the power cut that would make a difference. Waiting was a
    sixth of `make quick`, and as much of the tests of `make test` that need no engine. That files are synced before
    they are named is asserted in `test_storage.py`, which sees the calls; what writes is called there with the real
    one as well. `make fuzz`, `make soak` and processes that tests start really sync.
    """
    os.fstat(file)
