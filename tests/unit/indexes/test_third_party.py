"""The index type of another distribution, as `examples/length_index` ships it: installed, found, built, asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import pruner
from tests.support.parquet_tables import write_file
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

    # Where the package is missing, its index is left alone and named; the others are refreshed.
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
