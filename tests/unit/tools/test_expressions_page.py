"""docs/index-functions.md lists the functions of the registry that indexes may be over."""

from __future__ import annotations

from tools.pages import expressions as expressions_page


def test_the_page_is_up_to_date():
    assert expressions_page.page() == expressions_page.PAGE.read_text(encoding="utf-8"), "run `make api`"
