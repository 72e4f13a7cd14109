"""Makes the pictures of the documentation: what the real program prints, as SVG.

    python -m tools.pages.pictures            # or `make api`

The table is made here, from numbers that are the same on every machine.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

DOCS = Path(__file__).resolve().parents[2] / "docs"
FILES, ROWS = 12, 50
COLUMNS = 110
BEGIN = datetime(2024, 1, 1)

_PAPER = TerminalTheme(
    (255, 255, 255), (17, 17, 17), [(17, 17, 17)] * 8, [(17, 17, 17)] * 8
)  # black on white: it is read in print, too


def flights(folder: Path) -> Path:
    """A table whose files follow each other in time; every one of them has short flights and long ones."""
    root = folder / "flights"
    root.mkdir()
    for file in range(FILES):
        rows = range(file * ROWS, (file + 1) * ROWS)
        columns = {
            "departure": pa.array([BEGIN + timedelta(hours=row) for row in rows], pa.timestamp("s")),
            "distance": [100 + row * 37 % 2400 for row in rows],
        }
        pq.write_table(pa.table(columns), root / f"{file:02}.parquet")
    return root


def printed(folder: Path, *arguments: str) -> str:
    """What `pruner` prints in a folder, but for sizes, which follow the version of the writer."""
    command = [sys.executable, "-m", "pruner", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return re.sub(rf"(files    {FILES}), .* MB", r"\1", done.stdout.replace(f"{folder}/", ""))


def picture(command: str, text: str) -> str:
    """A terminal as SVG, which fetches nothing."""
    with Path("/dev/null").open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere)
        console.print(Text(f"$ {command}\n{text}"), end="", no_wrap=True, crop=True)
        svg = console.export_svg(title=command, theme=_PAPER, unique_id="pruner")
    return re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL)


def map_of_flights() -> str:
    """The picture docs/map.svg."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flights(folder)
        printed(folder, "sql", "CREATE INDEX stats ON 'flights' (departure, distance)")
        return picture("pruner map flights", printed(folder, "map", "flights"))


if __name__ == "__main__":
    (DOCS / "map.svg").write_text(map_of_flights(), encoding="utf-8")
