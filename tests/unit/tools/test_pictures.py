"""The pictures of the documentation show the program's current output, and fetch nothing."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from tools.pages import page_pictures, pictures

PICTURE = pictures.DOCS / "map.svg"


@pytest.mark.processes
def test_the_map_is_up_to_date() -> None:
    assert shown(pictures.map_of_flights()) == shown(PICTURE.read_text(encoding="utf-8")), "run `make api`"


def test_the_map_fetches_nothing() -> None:
    for each in ElementTree.fromstring(PICTURE.read_text(encoding="utf-8")).iter():
        assert each.tag.rpartition("}")[2] not in ("image", "script", "use", "foreignObject")
        assert "url(http" not in (each.text or "")


@pytest.mark.processes
def test_the_pictures_of_pages_are_of_these_pages() -> None:
    """Fonts differ between machines, so a picture identifies its page by a checksum."""
    for name, each in page_pictures.pages().items():
        picture = (pictures.DOCS / name).read_bytes()
        assert page_pictures.digest_in(picture) == page_pictures.digest(each), f"{name}: run `make api`"
        assert len(picture) < 200_000


def shown(svg: str) -> list[str]:
    """The texts of a picture, whatever version of rich drew them."""
    return [unescape(each).replace("\xa0", " ") for each in re.findall(r"<text [^>]*>([^<]*)</text>", svg)]
