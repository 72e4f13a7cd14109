"""The names and parameters that programs, adapters and index types rely on match a table kept under review."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from tests.support.public_interface import table

TABLE = Path(__file__).resolve().parents[1] / "spec" / "public_interface.txt"


def test_the_public_interface_is_the_one_in_the_table() -> None:
    kept = TABLE.read_text(encoding="utf-8").splitlines()
    difference = "\n".join(unified_diff(kept, table().splitlines(), "table", "code", lineterm="", n=1))
    assert not difference, (
        f"the public interface changed; if that is meant, write its table anew:\n{difference}"
    )
