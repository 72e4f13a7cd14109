"""`pruner errors` has every message that the code raises, and finds a message by any part of it."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pruner.cli.commands.errors import explained, meaning
from tests.unit.cli.conftest import Run
from tools.pages.error_messages import HOLE, ROOT, messages
from tools.pages.errors import PAGE, page


def stored() -> list[dict[str, Any]]:
    return tomllib.loads((ROOT / "pruner" / "cli" / "errors.toml").read_text("utf-8"))["errors"]


def test_every_message_of_the_code_is_explained_once() -> None:
    """A new message needs a cause and a remedy in pruner/cli/errors.toml; a removed one must be removed there, too."""
    known = Counter(message for each in stored() for message in each["messages"])
    raised = messages()
    assert len(raised) > 300
    assert raised - known.keys() == set()
    assert known.keys() - raised == set()
    assert [message for message, times in known.items() if times > 1] == []


def test_sentences_that_are_only_printed_are_those_of_the_code() -> None:
    code = "".join(path.read_text("utf-8") for path in (ROOT / "pruner").rglob("*.py"))
    told = [sentence for each in stored() for sentence in each.get("told", ())]
    parts = [part.strip(" :(),") for sentence in told for part in sentence.split(HOLE)]
    assert len(told) > 4
    assert [part for part in parts if part not in code] == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("shown", "remedy"),
    [
        (
            "error: unknown table ordrs: pass --table ordrs=URI, or name it in pruner.toml (known are a, b)",
            "NAME=URI",
        ),
        (
            "unknown table o: pass --table o=URI, or name it in pruner.toml (none is known) (line 1 of the query)",
            "NAME=URI",
        ),
        (
            "not indexed: /t/a.parquet does not end like a Parquet file: it is truncated, or not a Parquet file",
            "Write the file again",
        ),
        (
            "error: /t/part-03.parquet is not the file that was indexed under this name: run pruner refresh; if",
            "Run pruner refresh",
        ),
    ],
)
def test_a_sentence_that_is_only_printed_is_found(shown: str, remedy: str) -> None:
    [found] = meaning(shown, explained())
    assert remedy in found.remedy


def test_causes_and_remedies_are_sentences() -> None:
    for each in explained():
        for text in (each.cause, each.remedy):
            assert text[-1] == ".", text
            assert 10 < len(text) < 350, text


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["plan", "lake/nothing", "--where", "x = 1"], "pruner tables"),
        (["explain", "flights", "--where", "nobody = 1"], "list in the message"),
        (["plan", "flights", "--where", "delay ="], "dialect"),
        (["sql", "CREATE INDEX i ON flights USING nothing (delay)"], "that the message names"),
        (["sql", "DROP INDEX nobody ON flights"], "show-indexes"),
        (["query", "DELETE FROM flights"], "one SELECT"),
        (["refresh", "flights", "--interval", "5"], "--help"),
    ],
)
def test_an_error_as_it_is_shown_is_found(run: Run, flights: Path, arguments: list[str], remedy: str) -> None:
    shown = run(*arguments)
    assert shown.code != 0
    found = run("errors", shown.err.strip())
    assert found.code == 0, shown.err
    assert remedy in found.out


def test_the_most_special_message_counts() -> None:
    [found] = meaning("error: cannot list /lake completely: Permission denied at /lake/a", explained())
    assert found.messages == ("cannot list … completely: … at …",)


def test_the_list_as_text_and_as_json(run: Run) -> None:
    text = run("errors").out
    listed = json.loads(run("errors", "--output", "json").out)
    assert len(listed) == len(explained())
    assert all(message in text for each in listed for message in each["messages"])


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("no column 'citty'", "no column …"),
        ("has type list<element: string>, which", "column … has type …, which … cannot index: …"),
        ("has type list<element: string>, which bitmap", "column … has type …, which bitmap cannot index: …"),
        ("'o' holds list<element: string>, which bitmap cannot index", "which bitmap cannot index"),
        ("no index 'dayz' on /lake/events", "no index … on …"),
        ("no", "no such path: …"),
    ],
)
def test_a_part_with_values_of_its_own_is_found(run: Run, part: str, message: str) -> None:
    found = run("errors", part)
    assert found.code == 0, found.err
    assert message in found.out


@pytest.mark.slow
def test_a_value_alone_is_no_part_of_a_message(run: Run) -> None:
    """Any text may be in place of a value, so a value alone identifies nothing."""
    for text in ("'citty'", "the weather is fine today", "x", "'no column' and more words that nobody wrote"):
        assert run("errors", text).code == 2, text


def test_a_text_that_is_not_an_error_of_pruner(run: Run) -> None:
    refused = run("errors", "Segmentation fault")
    assert refused.code == 2
    assert "no message contains this text" in refused.err
