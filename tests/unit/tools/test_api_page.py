"""docs/api.md matches the code, and is complete."""

from __future__ import annotations

import ast
import re
from importlib import import_module

import pytest

from tools.pages import api as api_page

PAGE = api_page.PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert api_page.page() == PAGE, "run `make api`"


@pytest.mark.parametrize("package", api_page.PACKAGES)
def test_every_public_name_is_there_with_a_description(package: str) -> None:
    module = import_module(package)
    section = PAGE.split(f"\n## `{package}`\n")[1].split("\n## ")[0]
    for name in module.__all__:
        if not name.startswith("__"):
            forms = (f"### `{name}`\n", f"- `{name}` (a `", f"- `{name}`: ", f"- `{name}` = `")
            assert any(form in section for form in forms), name
            assert getattr(module, name).__doc__, name


def test_lines_are_short_and_links_lead_somewhere() -> None:
    assert [line for line in PAGE.splitlines() if len(line) > 120] == []
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (api_page.PAGE.parent / target).is_file(), target


SOURCE = '''
def f(a, b: int = 1, *rest: str, c: bool = False, d, **more: float) -> None:
    """First line
    goes on.

    Args:
        a: text of
            two lines: with a colon.
        rest: more.

    Returns:
        Nothing, see docs/api.md.

    Raises:
        ValueError: when `x = 1` is so.
        duckdb.Error: else.
    """
'''


def test_a_function_in_full() -> None:
    node = ast.parse(SOURCE).body[0]
    text = "\n".join(api_page.function(node, "f", "###"))
    assert "f(a, b: int = 1, *rest: str, c: bool = False, d, **more: float) -> None" in text
    assert "First line goes on." in text
    assert "- `a`: text of two lines: with a colon.\n- `rest`: more." in text
    assert "Returns: Nothing, see [api.md](api.md)." in text
    assert "- `ValueError`: when `x = 1` is so.\n- `duckdb.Error`: else." in text
