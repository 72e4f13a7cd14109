"""A Chromium without a screen, for tests of pages and for their pictures.

It comes as packages of Python with hashes (`requirements-browser.lock`), 260 MB that go into an environment of their
own in the cache folder the first time. Nothing else is fetched, and no browser of the machine is used: pages look the
same to every developer, but for fonts.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tools.matrix import python_with

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements-browser.lock"
DRIVER = Path(__file__).with_name("browser_driver.py")

NEEDING = (
    "Qt/libexec/QtWebEngineProcess",
    "Qt/lib/libQt6WebEngineCore.so.6",
    "Qt/lib/libQt6WebEngineWidgets.so.6",
    "Qt/plugins/platforms/libqoffscreen.so",
)
"""What of the packages loads libraries of the system."""


class MissingBrowserError(RuntimeError):
    """The browser cannot run on this machine; the message is one sentence that says what is missing."""


class BrowserError(RuntimeError):
    """The browser did not open a page; the message ends with the last lines that it wrote."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the browser made of a page."""

    milliseconds: float
    """From the request to the first paint of a page that is loaded."""
    text: str
    overflow: int
    """Pixels by which the page is wider than its window."""
    contrast: float
    """The least of a text with what is behind it; 4.5 is what the WCAG asks for."""
    tree: list[tuple[str, str]]
    """Roles and names as a screen reader is told them, in the order of the page."""
    levels: list[int]
    """The levels of its headings."""
    styled: bool
    """Whether its own style is in force."""
    faults: list[str]
    """Exceptions and messages of the console."""
    fetched: list[str]
    """What was requested, the page itself first."""
    picture: bytes = field(repr=False)
    printed: str = field(repr=False)
    """The text of the page as it is printed."""

    def named(self, role: str) -> list[str]:
        """The names of all elements of a role."""
        return [name for each, name in self.tree if each == role]


@dataclass(frozen=True, slots=True)
class Browser:
    """A running browser with one page."""

    process: subprocess.Popen[str]
    log: IO[str]

    def look(
        self,
        url: str,
        *,
        media: str = "screen",
        size: tuple[int, int] = (1000, 800),
        picture_of: str = "",
        printed: bool = False,
    ) -> Seen:
        """Open a page.

        Args:
            url: of a file or a server.
            media: `screen` or `print`.
            size: width and height of the window in pixels.
            picture_of: a CSS selector; the picture shows its first element.
            printed: whether it is printed as well.
        """
        width, height = size
        request = {"url": url, "media": media, "width": width, "height": height}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request | {"selector": picture_of, "printed": printed}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"refused": "the browser ended"}
        if "refused" in answer:
            self.log.seek(0)
            last = "".join(self.log.readlines()[-20:])
            raise BrowserError(f"{url}: {answer['refused']}\n{last}")
        tree = [(role, name) for role, name in answer.pop("tree")]
        return Seen(**answer | {"tree": tree, "picture": base64.b64decode(answer["picture"])})


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the browser; it ends with the block."""
    python = _python()
    missing = missing_libraries(python)
    if missing:
        raise MissingBrowserError(
            f"The browser that tests pages needs libraries of the system that this machine lacks "
            f"({', '.join(missing)}); the packages with these names, or that `apt-file search` finds, have them."
        )
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(
            [python, DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )
        try:
            yield Browser(process, log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _python() -> Path:
    try:
        return python_with(LOCK)
    except subprocess.CalledProcessError as failed:
        raise MissingBrowserError(
            f"The browser that tests pages could not be installed from {LOCK.name} (pip ended with "
            f"{failed.returncode}, its words are above); its packages are for glibc 2.34 or newer."
        ) from None


def missing_libraries(python: Path) -> list[str]:
    """The libraries of the system that the browser would not find."""
    packages = next(python.parent.parent.glob("lib/python*/site-packages/PySide6"))
    missing: set[str] = set()
    for each in NEEDING:
        told = subprocess.run(["ldd", packages / each], capture_output=True, text=True, check=False).stdout
        missing |= {line.split()[0] for line in told.splitlines() if line.endswith("not found")}
    return sorted(missing)
