"""docs/functions.md lists the content of the registry of functions."""

from __future__ import annotations

from tools.pages import functions as functions_page


def test_the_page_is_up_to_date():
    assert functions_page.page() == functions_page.PAGE.read_text(encoding="utf-8"), "run `make api`"
