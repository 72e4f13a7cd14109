"""Which constants of our code Hypothesis mixes into its examples.

Left to itself it takes those of every module that is imported by then. The same seed then gives other examples in
another order of tests, for a single test, or in a folder named `tests`. Here they are fixed: those of all modules
where new seeds look for what is not known yet, none where a run must stay the same from commit to commit.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants, ConstantVisitor

ROOT: Final = Path(__file__).resolve().parents[3]
CODE: Final = ("pruner", "adapters")


def fix(*, of_the_code: bool) -> None:
    """Make Hypothesis use the constants of all of our modules, or those of none."""
    chosen = _of_the_code() if of_the_code else Constants()
    if not hasattr(providers, "_get_local_constants"):
        raise RuntimeError(
            "this Hypothesis collects constants in another way: see tests/support/running/constants.py"
        )
    setattr(providers, "_get_local_constants", lambda: chosen)  # noqa: B010  (there is no public way)


def _of_the_code() -> Constants:
    found = Constants()
    for folder in CODE:
        for file in (ROOT / folder).rglob("*.py"):
            visitor = ConstantVisitor(limit=False)
            visitor.visit(ast.parse(file.read_bytes()))
            found |= visitor.constants
    kinds: dict[str, Any] = {
        kind: sorted(getattr(found, kind), key=repr) for kind in ("integers", "floats", "bytes", "strings")
    }
    return Constants(**kinds)
