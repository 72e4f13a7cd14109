"""The page at `/`: what it shows, that no content can become markup, and who may see it."""

from __future__ import annotations

import base64
import logging
import time
import urllib.request
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.expr.semantics import Semantics
from pruner.expr.show import shape
from pruner.expr.text.sql import parse_predicate
from pruner.service import Settings
from pruner.service import page as overview
from pruner.service.journal import Entry, PlanOutcome
from tests.unit.service.conftest import FILES, Client

TOKEN = "a token that nobody guesses"
HOSTILE = "<img src=x onerror=alert(1)>\"'\n&"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td",
    "ul", "li", "code", "a", "br", "main", "caption",
}  # fmt: skip


class _Page(HTMLParser):
    """Text and markup of a page."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.text = ""
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def _plan(client: Client, predicate: dict[str, Any]) -> dict[str, Any]:
    asked = {"table": "numbers", "session": {"engine": "trino"}, "predicate": predicate}
    return client.post("/v1/plan", asked).json


def _page(client: Client) -> _Page:
    """The page once every table was tried."""
    while client.get("/readyz").json["status"] == "starting":
        time.sleep(0.02)
    answer = client.get("/")
    assert answer.status == 200
    return _Page(answer.body)


def test_it_shows_tables_indexes_and_plans_without_their_constants(client: Client) -> None:
    made = _plan(client, {"form": "sql", "text": "n = 42 AND n < 1234567"})
    page = _page(client)
    for part in (
        "numbers",
        "hive.web.numbers",
        "stats",
        "column_stats",
        f"{FILES} of {FILES}",
        "Nothing to do.",
    ):
        assert part in page.text
    assert "n = ? AND n < ?" in page.text
    assert f"1 of {FILES}" in page.text
    assert "1234567" not in page.text
    assert ("href", f"/v1/plans/{made['plan_id']}") in page.attributes


def test_an_index_that_saves_nothing_is_named(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached answers count as well: all of these but the first are cached."""
    monkeypatch.setattr(overview, "MANY_PLANS", 6)
    named = "Index stats left out nothing in the last 6 of 7 plans that asked it here"
    _plan(client, {"form": "sql", "text": "n = 42"})
    for count in range(6):
        assert named not in _page(client).text, count
        _plan(client, {"form": "sql", "text": "n >= 0"})
    assert named in _page(client).text
    _plan(client, {"form": "sql", "text": "n = 42"})
    assert named not in _page(client).text


def test_it_names_the_remedy(client: Client, lake: Path) -> None:
    """A file that is not indexed, predicates that exclude nothing, no index at all, a broken configuration."""
    (lake / "new.parquet").write_bytes((lake / "part-00.parquet").read_bytes())
    for _ in range(6):
        _plan(client, {"form": "sql", "text": "n >= 0"})
    text = _page(client).text
    assert "1 of 21 files is not in index stats and stays in every plan. Run: pruner refresh numbers" in text
    assert "6 of the last 6 plans left out nothing, most often n >= ? (6 times)" in text
    pruner.open_table(lake).drop_index("stats")
    assert 'Try: pruner sql "CREATE INDEX' in _page(client).text
    lake.parents[1].joinpath("pruner.toml").write_text("[tables")
    while "The configuration was changed and cannot be used" not in _page(client).text:
        time.sleep(0.02)


def test_what_it_advises_can_be_done(client: Client, lake: Path) -> None:
    """The statement that it proposes creates an index."""
    table = pruner.open_table(lake)
    table.drop_index("stats")
    proposed = _page(client).text.split('Try: pruner sql "')[1].split('"')[0]
    pruner.sql(proposed)
    assert table.plan("n = 42").kept == 1


def test_nothing_that_a_client_sends_is_markup(client: Client) -> None:
    column = {"node": "column", "path": [HOSTILE]}
    literal = {"node": "literal", "type": "string", "value": HOSTILE}
    tree = {"node": "compare", "operator": "=", "left": column, "right": literal}
    assert _plan(client, {"form": "expression", "expression": tree})["kept"] == FILES
    page = _page(client)
    assert "onerror=alert(1)" in page.text
    assert page.tags <= TAGS
    assert {name for name, _ in page.attributes} <= {
        "lang",
        "charset",
        "name",
        "content",
        "class",
        "href",
        "scope",
    }


def test_it_loads_and_runs_nothing(client: Client) -> None:
    """The browser is told so as well."""
    with urllib.request.urlopen(client.url + "/") as answer:
        policy = answer.headers["Content-Security-Policy"]
        content = answer.read().decode()
        assert answer.headers["Cache-Control"] == "no-store"
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "://" not in content


def test_a_browser_may_send_the_token_as_a_password_there_and_only_there(
    serve: Callable[[Settings], Client],
) -> None:
    client = serve(Settings(token=TOKEN))
    right = "Basic " + base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    assert client.get("/", Authorization=right).status == 200
    assert client.get("/v1/tables", Authorization=right).status == 401
    for wrong in (
        "",
        "Basic",
        "Basic ?",
        "Basic " + base64.b64encode(b"anybody:").decode(),
        f"Basic {TOKEN}",
    ):
        assert client.get("/", Authorization=wrong).status == 401
    for path in ("/healthz", "/readyz"):
        assert client.get(path).status in {200, 503}


def test_the_log_has_duration_shape_and_index(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="pruner"):
        _plan(client, {"form": "sql", "text": "n = 42"})
    line = next(record.getMessage() for record in caplog.records if "files kept" in record.getMessage())
    assert line.startswith(f"table numbers: 1 of {FILES} files kept in ")
    assert line.endswith(" ms for trino: n = ?; 19 by stats")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a = 1 AND NOT (b < 'x' OR c IS NULL)", "a = ? AND NOT (b < ? OR c IS NULL)"),
        ("a IN (1, 2, 3) OR b LIKE 'secret%'", "a IN (?) OR b LIKE ?"),
        ("lower(b) = 'secret'", "lower(b) = ?"),
        ("regexp_like(b, 'secret.*x') AND a > -5", "regexp_like(b, ?) AND a > ?"),
        ("a = 1 AND b[7] = 'secret'", "a = ? AND …(b) = ?"),
        ("t = TIMESTAMP '2026-01-02 03:04:05' OR 'secret' = b", "t = ? OR ? = b"),
    ],
)
def test_the_form_of_a_predicate_holds_no_constant(text: str, form: str) -> None:
    assert shape(parse_predicate(text, Semantics.of("trino"))) == form


def test_a_line_of_the_log_stays_one_line() -> None:
    reasons = ("x\r\n2026 ERROR y\x1b[2J\u2028",)
    entry = Entry(PlanOutcome("id", "t", "trino", "a\nb", 1, 1, (("i", 1),), reasons), 0, 0.001, again=True)
    assert (
        entry.line()
        == "table t: 1 of 1 file kept in 1.0 ms for trino again: a b; 1 by i; x 2026 ERROR y [2J "
    )
