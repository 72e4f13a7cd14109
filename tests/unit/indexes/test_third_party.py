"""The index type of another distribution, as in `examples/length_index`: installed, found, built, queried."""

from __future__ import annotations

from pathlib import Path

import pytest

import pruner
from tests.support.parquet.tables import write_file
from tests.support.plugin_examples import run_with_example

SCRIPT = """
import sys
import pruner
table = pruner.open_table(sys.argv[1])
built = table.create_index("lengths", on="s", using="text_length")
assert built.indexed == 3, built
for where in ("s = 'LEX'", "s IN ('LEX', 'LEXX')", "s != 'LEX'", "s = 'LEX' OR x = 1", "NOT (s = 'LEX')"):
    print(where, *sorted(uri.rsplit("/", 1)[1][0] for uri in table.plan(where).files))
try:
    table.create_index("other", on="x", using="text_length")
except pruner.IndexDefinitionError as error:
    print(error)
"""


@pytest.mark.processes
def test_an_index_type_of_another_distribution(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_file(root / "a.parquet", s=["LEX", "LAX"], x=[1, 2])
    write_file(root / "b.parquet", s=["Lexington", "Boston"], x=[1, 2])
    write_file(root / "c.parquet", s=["", "Lexi", None], x=[1, 2, 3])
    printed = run_with_example("length_index", tmp_path / "site", SCRIPT, str(root))
    assert printed == [
        "s = 'LEX' a c",
        "s IN ('LEX', 'LEXX') a c",
        "s != 'LEX' a b c",
        "s = 'LEX' OR x = 1 a b c",
        "NOT (s = 'LEX') a b c",
        "text_length indexes columns of text without options, not 'x'",
    ]

    # If the package is missing, its index is left unchanged and named; the others are refreshed.
    table = pruner.open_table(str(root))
    table.create_index("stats", on="x")
    write_file(root / "d.parquet", s=["Lexi"], x=[9])
    with pytest.raises(
        pruner.IndexDefinitionError, match="index 'lengths' cannot be refreshed: no index type"
    ):
        table.refresh(index="lengths")
    result = table.refresh()
    assert result.indexed == 1
    assert list(result.refused) == ["lengths"]
    assert result.refused["lengths"].startswith(
        "index 'lengths' cannot be refreshed: no index type 'text_length'"
    )
    assert table.plan("x = 9").kept == 1
    assert table.plan("s = 'nothing'").total == table.plan("s = 'nothing'").kept == 4, (
        "an unknown type proves nothing"
    )


BROKEN = """
import sys
import numpy as np
import pruner
import pruner_length_index as package

good_load, good_possible = package.TextLength.load, package.LengthEvidence.possible


def fails(*arguments):
    raise ValueError("no such page")


def covers(value):
    def load(self, records, count, field):
        evidence = good_load(self, records, count, field)
        evidence.covered = value
        return evidence

    return load


def asked(title, load=good_load, possible=good_possible):
    package.TextLength.load, package.LengthEvidence.possible = load, possible
    plan = pruner.open_table(sys.argv[1]).plan("s = 'LEX'")
    print(title, plan.kept, *plan.fallbacks, sep=" | ")


pruner.open_table(sys.argv[1]).create_index("lengths", on="s", using="text_length")
asked("sound")
asked("load raises", load=fails)
asked("load gives nothing", load=lambda *a: None)
asked("covered is a list", load=covers([True] * 3))
asked("covered is short", load=covers(np.ones(2, np.bool_)))
asked("possible raises", possible=fails)
asked("possible is short", possible=lambda *a: np.zeros(2, np.bool_))
asked("possible is a list", possible=lambda *a: [False] * 3)
asked("possible counts", possible=lambda *a: np.zeros(3, np.int64))
asked("possible is one", possible=lambda *a: False)
asked("what is not covered is dropped", load=covers(np.zeros(3, np.bool_)), possible=lambda *a: np.zeros(3, np.bool_))
"""


@pytest.mark.processes
def test_an_index_type_that_breaks_its_rules_drops_nothing_and_is_named(tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_file(root / "a.parquet", s=["LEX"])
    write_file(root / "b.parquet", s=["Boston"])
    write_file(root / "c.parquet", s=["Lexi"])
    raised, shape = "ValueError: no such page", "its answer is not a mask of 3 slices, but "
    covered = "its `covered` is not a mask of 3 slices, but "
    kept = {title: (int(count), notes) for title, count, *notes in map(_parts, _broken(tmp_path, root))}

    def noted(reason: str) -> str:
        return f"index lengths: the index type 'text_length' failed: {reason}"

    def failed(reason: str) -> tuple[int, list[str]]:
        return 3, ["no index on column s can answer s = 'LEX'", noted(reason)]

    def unusable(reason: str) -> tuple[int, list[str]]:
        return 3, [noted(reason)]

    assert kept == {
        "sound": (1, []),
        "load raises": unusable(raised),
        "load gives nothing": (3, ["no index on column s"]),
        "covered is a list": unusable(f"{covered}a list"),
        "covered is short": unusable(f"{covered}bool of shape (2,)"),
        "possible raises": failed(raised),
        "possible is short": failed(f"{shape}bool of shape (2,)"),
        "possible is a list": failed(f"{shape}a list"),
        "possible counts": failed(f"{shape}int64 of shape (3,)"),
        "possible is one": failed(f"{shape}a bool"),
        "what is not covered is dropped": (3, []),
    }


def _broken(tmp_path: Path, root: Path) -> list[str]:
    return run_with_example("length_index", tmp_path / "site", BROKEN, str(root))


def _parts(line: str) -> list[str]:
    return line.split(" | ")
