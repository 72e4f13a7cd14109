"""Makes the pictures of pages in the documentation: the pages that the real program writes, as Chromium shows them.

    python -m tools.pages.page_pictures       # or `make api`

Each PNG says which page it shows, by a checksum. So a test finds a picture that has grown old without a browser, and
whatever fonts the machine has that made it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
import time
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.maintenance.mapping import map_page
from pruner.version import __version__
from tools.pages.browser import browser
from tools.pages.pictures import DOCS, FILES, flights
from tools.planner_service import planner_service

PREDICATE = "departure >= '2024-01-09' AND departure < '2024-01-15' AND distance < 1000"
SIZE = (960, 600)
KEYWORD = "Page"

_OLD = 1_700_000_000
_VARYING = (
    # Sizes follow the version of the writer, times the machine.
    (r"[\d.]+ ms<", "0.50 ms<"),
    (r"[\d.]+ MB", "0.02 MB"),
    (r'class="number">[\d,]*\d,\d{3}<', 'class="number">1,424<'),
    (r"(<dt>Bytes</dt><dd>)[\d,]+", r"\g<1>17,088"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "2026-02-01T12:00:00"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d</a>", "2026-02-01 12:00:00</a>"),
    (r"/v1/plans/[0-9a-f-]+", "/v1/plans/0"),
    (r'class="number">\d+\.\d<', 'class="number">0.5<'),
    (f"pruner {re.escape(__version__)}", "pruner"),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """A page, and the element with which its picture ends."""

    html: str
    last: str


def pages() -> dict[str, Shown]:
    """The pages of a plan, of a map and of the service over one small table, by the name of their picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = _table(folder)
        plan = table.plan(PREDICATE, dialect="duckdb").to_html()
        drawn = map_page(table.map(history=True))
        made = {
            "page-of-a-plan.png": Shown(plan, "section:nth-of-type(2)"),
            "page-of-a-map.png": Shown(drawn, "main"),
            "page-of-the-service.png": Shown(_served(folder), "main"),
        }
        return {each: Shown(_steady(shown.html, folder), shown.last) for each, shown in made.items()}


def _table(folder: Path) -> pruner.Table:
    """A table of which the index covers all files but the newest."""
    root = flights(folder)
    _settle(root)
    table = pruner.open_table(root)
    table.create_index("stats", on=["departure", "distance"])
    newest = pq.read_table(root / f"{FILES - 1:02}.parquet")
    pq.write_table(pa.concat_tables([newest, newest]), root / f"{FILES:02}.parquet")
    _settle(root)
    return table


def _settle(root: Path) -> None:
    """A file that was just written may still change within the clock's granularity."""
    for each in root.iterdir():
        os.utime(each, (_OLD, _OLD))


def _served(folder: Path) -> str:
    """The page of a service that has planned twice."""
    (folder / "pruner.toml").write_text('[tables.flights]\nuri = "flights"\n', encoding="utf-8")
    with planner_service(folder) as url:
        for text in (PREDICATE, "distance = 100"):
            asked = {
                "table": "flights",
                "session": {"engine": "duckdb"},
                "predicate": {"form": "sql", "text": text},
            }
            header = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{url}/v1/plan", json.dumps(asked).encode(), header)
            _content(request)
        while json.loads(_content(f"{url}/readyz"))["status"] == "starting":
            time.sleep(0.05)
        return _content(url)


def _content(asked: urllib.request.Request | str) -> str:
    """What a service answers, be it that it is not ready."""
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as unready:
        with unready:
            return unready.read().decode()


def _steady(html: str, folder: Path) -> str:
    """A page without what differs from one machine or moment to another."""
    html = html.replace(str(folder), "/lake")
    for pattern, text in _VARYING:
        html = re.sub(pattern, text, html)
    return html


def digest(shown: Shown) -> str:
    """What a picture says of the page that it shows."""
    return hashlib.sha256(f"{shown.last}\n{shown.html}".encode()).hexdigest()


_HEADER = 8 + 25
"""Bytes of a PNG before its second chunk: the signature, and the chunk with its size."""


def with_digest(picture: bytes, told: str) -> bytes:
    """A PNG that names its page."""
    content = b"tEXt" + KEYWORD.encode() + b"\0" + told.encode()
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return picture[:_HEADER] + chunk + picture[_HEADER:]


def digest_in(picture: bytes) -> str:
    """The page that a PNG names."""
    (length,) = struct.unpack_from(">I", picture, _HEADER)
    return picture[_HEADER + 8 : _HEADER + 8 + length].removeprefix(KEYWORD.encode() + b"\0").decode()


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as name, browser() as chromium:
        for file, shown in pages().items():
            page = Path(name) / "page.html"
            page.write_text(shown.html, encoding="utf-8")
            seen = chromium.look(page.as_uri(), size=SIZE, picture_of=shown.last)
            (DOCS / file).write_bytes(with_digest(seen.picture, digest(shown)))


if __name__ == "__main__":
    main()
