"""Asks readers of other projects the conditions of the cases, and says who loses which rows.

`python referee/run.py` with Python 3.11 or newer and nothing else; each reader gets an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CASES = HERE / "cases"
SCRATCH = Path(tempfile.gettempdir()) / "lake-pruner-referee"
"""Where cases are while they are read: Iceberg's metadata has absolute paths, so this is /tmp on every machine."""

SECONDS = 60
"""The longest that a reader may take for one query."""


@dataclass(frozen=True)
class Reader:
    """A reader in the versions that `readers.toml` names."""

    name: str
    requirement: str
    formats: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Name and version."""
        return re.sub(r"\[.*?\]", "", self.requirement).replace("==", " ")

    def python(self, environments: Path) -> Path:
        """The interpreter of an environment with this reader, which is created if missing.

        Raises:
            subprocess.CalledProcessError: it cannot be installed.
        """
        place = environments / self.title.replace(" ", "-")
        python = place / "bin" / "python"
        if not (place / "ready").exists():
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            command = [str(python), "-m", "pip", "install", "--quiet", self.requirement, *self.also]
            subprocess.run(command, check=True, capture_output=True)
            (place / "ready").touch()
        return python


@dataclass(frozen=True)
class Question:
    """One condition over one table of a case."""

    case: str
    trap: str
    title: str
    format: str
    condition: list[Any]

    def line(self, table: str) -> str:
        """The query as `answer.py` reads it."""
        root = SCRATCH / self.case / table
        place = root
        if self.format == "iceberg":
            place = max((root / "metadata").glob("*.metadata.json"))
        return json.dumps({"root": str(place), "format": self.format, "condition": self.condition})


@dataclass(frozen=True)
class Finding:
    """How a reader's answers over the table and over the same rows without anything to skip by differ."""

    reader: str
    question: Question
    lost: tuple[int, ...]
    extra: tuple[int, ...]
    error: str | None = None


def readers() -> list[Reader]:
    """The readers of `readers.toml`."""
    known = tomllib.loads((HERE / "readers.toml").read_text("utf-8"))["readers"]
    return [
        Reader(each["name"], each["requirement"], tuple(each["formats"]), tuple(each.get("also", ())))
        for each in known
    ]


def questions() -> list[Question]:
    """All conditions of all cases."""
    found: list[Question] = []
    for file in sorted(CASES.glob("*/case.json")):
        case = json.loads(file.read_text("utf-8"))
        found += [
            Question(file.parent.name, case["trap"], case["title"], case["format"], condition)
            for condition in case["conditions"]
        ]
    return found


def answers(python: Path, reader: Reader, lines: Iterable[str]) -> list[dict[str, Any]]:
    """The answers of a reader, with a new process after one died or took too long."""
    left, found = list(lines), list[dict[str, Any]]()
    while left:
        command = [str(python), str(HERE / "answer.py"), reader.name]
        try:
            done = subprocess.run(
                command,
                input="\n".join(left),
                capture_output=True,
                text=True,
                timeout=SECONDS + len(left),
                check=False,
            )
            output, how = done.stdout, f"the process ended with {done.returncode}"
        except subprocess.TimeoutExpired as late:
            output, how = (late.stdout or b"").decode(), f"no answer within {SECONDS} s"
        told = [json.loads(line) for line in output.splitlines()]
        found += told
        left = left[len(told) :]
        if left:
            found.append({"error": how})
            left = left[1:]
    return found


def judge(reader: Reader, python: Path, asked: list[Question]) -> list[Finding]:
    """Compare the answers over the tables with those over the same rows without statistics."""
    mine = [each for each in asked if each.format in reader.formats]
    seen = answers(python, reader, [each.line("table") for each in mine])
    right = answers(python, reader, [each.line("blind") for each in mine])
    found: list[Finding] = []
    for question, one, other in zip(mine, seen, right, strict=True):
        if "ids" not in other:
            found.append(Finding(reader.title, question, (), (), f"not asked: {other['error']}"))
        elif "ids" not in one:
            found.append(Finding(reader.title, question, (), (), one["error"]))
        else:
            here, there = set(one["ids"]), set(other["ids"])
            found.append(
                Finding(reader.title, question, tuple(sorted(there - here)), tuple(sorted(here - there)))
            )
    return found


def prepare() -> None:
    """Copy the cases to the location named in Iceberg's metadata."""
    shutil.rmtree(SCRATCH, ignore_errors=True)
    shutil.copytree(CASES, SCRATCH)


def _shown(condition: list[Any]) -> str:
    sys.path.insert(0, str(HERE))
    from conditions import sql

    return sql(condition).removeprefix("(").removesuffix(")").replace("\U0010ffff", "\\U0010FFFF")


INTRO = """# Referee

Readers skip files, row groups and pages by statistics. Where a reader takes these statistics for what they are not, it
loses rows without an error. `referee/` holds small tables with the [traps](traps.md) that pruner knows, and asks
readers of other projects about them, each in an environment of its own with the version that is named here. `make
referee` repeats this page; `python referee/run.py --reader duckdb --case nan_outside_the_bounds` asks one question.

Each table lies there twice: once as a writer left it, and once with the same rows and nothing to skip by. What a
reader answers over the second is what a condition means to it, so a difference is no matter of taste, of how it orders
NaN, say. `tests/known_wrong/test_referee.py` asks pruner the same questions: its plans lose nothing.

Two caveats. The deprecated bounds, and bounds that are NaN, come from old writers alone. And a reader that answers
rightly here may not skip at all.
"""


def page(found: list[Finding]) -> str:
    """The findings as Markdown: how many answers of each reader are correct, and what goes wrong in which case."""
    lines = [INTRO, "| reader | right | rows lost | rows too many | refused |", "|---|--:|--:|--:|--:|"]
    for reader in dict.fromkeys(each.reader for each in found):
        mine = [each for each in found if each.reader == reader]
        lost, extra = sum(bool(each.lost) for each in mine), sum(bool(each.extra) for each in mine)
        refused = sum(each.error is not None for each in mine)
        wrong = sum(bool(each.lost or each.extra) for each in mine)
        lines.append(f"| {reader} | {len(mine) - wrong - refused} | {lost} | {extra} | {refused} |")
    lines += ["", "## What goes wrong", ""]
    by: dict[str, dict[str, list[Finding]]] = {}
    for each in found:
        if each.lost or each.extra:
            by.setdefault(each.question.case, {}).setdefault(each.reader, []).append(each)
    for case, wrong_readers in by.items():
        question = next(iter(wrong_readers.values()))[0].question
        lines += [
            f"**{question.title[0].upper()}{question.title[1:]}**",
            f"(`{case}`, trap {question.trap})",
            "",
        ]
        lines += [f"- {reader}: {_examples(several)}" for reader, several in wrong_readers.items()]
        lines.append("")
    asked = dict.fromkeys(each.question.case for each in found if each.question.case not in by)
    titles = {each.question.case: each.question.title for each in found}
    lines += ["## Where all are right", "", *(f"- {titles[case]}" for case in asked)]
    return "\n".join(lines) + "\n"


def _examples(found: list[Finding]) -> str:
    """The first condition that loses rows and the first that has too many."""
    lost = next((each for each in found if each.lost), None)
    extra = next((each for each in found if each.extra), None)
    parts: list[str] = []
    if lost is not None:
        parts.append(f"`{_shown(lost.question.condition)[:90]}` loses rows {_numbers(lost.lost)}")
    if extra is not None:
        parts.append(f"`{_shown(extra.question.condition)[:90]}` has rows {_numbers(extra.extra)} too many")
    return "; ".join(parts)


def _numbers(rows: tuple[int, ...]) -> str:
    return ", ".join(map(str, rows[:4])) + (", …" if len(rows) > 4 else "")


def main() -> None:
    """Run the queries, print the findings, and write them where `--page` says."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--reader", action="append", help="only this reader; may be repeated")
    options.add_argument("--case", action="append", help="only this case; may be repeated")
    options.add_argument(
        "--environments", type=Path, default=Path.home() / ".cache" / "lake-pruner" / "referee"
    )
    options.add_argument("--page", type=Path, help="write the table as Markdown to this file")
    options.add_argument("--errors", action="store_true", help="print what readers refuse, too")
    given = options.parse_args()
    chosen = [each for each in readers() if given.reader is None or each.name in given.reader]
    asked = [each for each in questions() if given.case is None or each.case in given.case]
    prepare()

    def judged(reader: Reader) -> list[Finding]:
        try:
            python = reader.python(given.environments)
        except subprocess.CalledProcessError as error:
            print(f"{reader.title}: not installed: {error.stderr.decode()[-300:]}", file=sys.stderr)
            return []
        found = judge(reader, python, asked)
        print(f"{reader.title}: {len(found)} questions", file=sys.stderr)
        return found

    with ThreadPoolExecutor(2) as pool:
        found = [each for several in pool.map(judged, chosen) for each in several]
    text = page(found)
    print(text)
    if given.errors:
        for each in found:
            if each.error is not None:
                print(
                    f"{each.reader} {each.question.case} {_shown(each.question.condition)[:80]}: {each.error}"
                )
    if given.page is not None:
        given.page.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
