"""`pruner errors`: every message of an error, with its cause and what to do."""

from __future__ import annotations

import re
import tomllib
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from typing import Annotated, Any

import typer

from pruner.cli.options import Output, OutputOption
from pruner.cli.output import print_json, write_line

HOLE = "…"
"""Stands for what varies in a message."""

_BEFORE = re.compile(r"^(.*?error: )?(Invalid value for [^ :]+: )?", re.IGNORECASE)
"""What stands before a message where it is shown: by a shell, by Python, and for an option."""

_BEHIND = r"( \(line \d+ of the query\))?(; .*)?"
"""What may follow a message."""

_SHORTEST_PART = 3
"""A text of fewer characters is looked for as a word of messages."""

_OWN_WORDS = 2
"""How many words a part of a message with values in it must share with the message."""

_OWN_SHARE = 1 / 3
"""How much of such a part those words must be; quoted text does not count."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")

_WORDS_OF_ITS_OWN = 3
"""How many spaces the words between two holes of a message must have to tell it from other messages."""

_CUT_SHORT = 12
"""How many characters of a message's part a text must end with to be taken for a message that was cut short."""

MessageArgument = Annotated[
    str | None,
    typer.Argument(metavar="[MESSAGE]", help="Explain only this error, as it was shown, or a part of it."),
]


@dataclass(frozen=True, slots=True)
class Explained:
    """Messages that have one cause and one remedy."""

    area: str
    cause: str
    remedy: str
    messages: tuple[str, ...]


def errors(message: MessageArgument = None, output: OutputOption = Output.TEXT) -> None:
    """List every error message with its cause and remedy."""
    shown = explained()
    if message is not None:
        shown = meaning(message, shown) or partly(message, shown)
        if not shown:
            raise typer.BadParameter(
                "no message contains this text: quote a part of one, or a line as it was shown",
                param_hint="MESSAGE",
            )
    if output is Output.JSON:
        print_json([asdict(explanation) for explanation in shown])
        return
    area = ""
    for explanation in shown:
        if explanation.area != area:
            area = explanation.area
            write_line(f"{area}\n")
        for text in explanation.messages:
            write_line(f"  {text}")
        write_line(f"    cause   {explanation.cause}")
        write_line(f"    remedy  {explanation.remedy}\n")


def explained() -> list[Explained]:
    """What `errors.toml` has."""
    stored: dict[str, Any] = tomllib.loads(files("pruner.cli").joinpath("errors.toml").read_text("utf-8"))
    return [
        Explained(
            error["area"], error["cause"], error["remedy"], (*error["messages"], *error.get("told", ()))
        )
        for error in stored["errors"]
    ]


def meaning(shown: str, among: list[Explained]) -> list[Explained]:
    """What one error as it was shown means: of several messages that fit, the one with most words of its own."""
    text = _BEFORE.sub("", " ".join(shown.split()))
    fitting = [
        (len(message.replace(HOLE, "")), explanation, message)
        for explanation in among
        for message in explanation.messages
        if re.fullmatch(_pattern(message), text)
    ]
    if not fitting:
        return []
    _, each, message = max(fitting, key=lambda fit: fit[0])
    return [Explained(each.area, each.cause, each.remedy, (message,))]


def partly(text: str, among: list[Explained]) -> list[Explained]:
    """Explain the messages of which the text is a part, or whose own words are in it.

    Where there are none, explain those that share most words with the text, which may have values between them.
    """
    words = _folded(_BEFORE.sub("", text))
    fitting = {
        message for explanation in among for message in explanation.messages if _is_partly(words, message)
    }
    if not fitting:
        shares = {
            message: _shared(words, message) for explanation in among for message in explanation.messages
        }
        most = max(shares.values())
        fitting = {message for message, share in shares.items() if share == most > 0}
    explained = [
        replace(explanation, messages=tuple(m for m in explanation.messages if m in fitting))
        for explanation in among
    ]
    return [explanation for explanation in explained if explanation.messages]


def _shared(words: str, message: str) -> int:
    """Characters that a text shares with a message, where it is a part of one as it may be shown; 0 where it is not."""
    parts = message.casefold().split(HOLE)
    shared = max((_shared_from(words, parts[at:], at > 0) for at in range(len(parts))), default="", key=len)
    told = len(_QUOTED.sub("", words))
    enough = len(re.findall(r"\w+", shared)) >= _OWN_WORDS and len(shared) >= _OWN_SHARE * told
    return len(shared) if enough else 0


def _shared_from(words: str, parts: list[str], after_value: bool) -> str:
    """What a text shares with a message from within the first of these parts on, anything standing between them.

    Where the part comes after a value, the text may begin in that.
    """
    first, *others = parts
    starts = [at for at in range(len(first)) if at == 0 or first[at - 1] == " "]
    shared = next((first[at:] for at in starts if first[at:].strip() and words.startswith(first[at:])), "")
    left = words[len(shared) :]
    if not shared:
        shared, left = (
            (first, words.partition(first)[2]) if after_value and first and first in words else ("", "")
        )
    for part in others if shared else ():
        if part in left:
            shared, left = shared + part, left.partition(part)[2] if part else ""
            continue
        ends = (part[:length] for length in range(len(part), 0, -1))
        return shared + next((end for end in ends if left.endswith(end) and left != end), "")
    return "" if left else shared


def _is_partly(words: str, message: str) -> bool:
    if len(words) < _SHORTEST_PART:
        return bool(words) and words in re.findall(r"\w+", message.casefold())
    if words in _folded(message):
        return True
    parts = [_folded(part) for part in message.split(HOLE)]
    return any(
        part in words or _is_cut_short(words, part) for part in parts if part.count(" ") >= _WORDS_OF_ITS_OWN
    )


def _is_cut_short(words: str, part: str) -> bool:
    """Whether a text ends with a good part of the beginning of this part of a message."""
    return any(words.endswith(part[:length]) for length in range(_CUT_SHORT, len(part)))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .:;")


def _pattern(message: str) -> str:
    return ".*".join(re.escape(part) for part in message.split(HOLE)) + _BEHIND
