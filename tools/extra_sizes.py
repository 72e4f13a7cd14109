"""Measures what each extra installs: a folder of its own for each, by pip, from a wheel of this checkout.

python -m tools.extra_sizes                  # all of them; several gigabytes are fetched the first time
python -m tools.extra_sizes hudi duckdb
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def wheel(folder: Path) -> Path:
    """Build the wheel into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [built] = folder.glob("*.whl")
    return built


def installed_bytes(wheel_file: Path, extra: str) -> int:
    """Install the wheel with an extra ("" for none) and count the bytes of what is there then."""
    with tempfile.TemporaryDirectory() as name:
        target = Path(name)
        wanted = f"{wheel_file}[{extra}]" if extra else str(wheel_file)
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*command, "--no-compile", "--target", name, wanted], check=True)
        return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


def extras() -> list[str]:
    """The extras that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def run(names: list[str]) -> None:
    """Print a row of a table for each extra."""
    with tempfile.TemporaryDirectory() as name:
        built = wheel(Path(name))
        print(f"wheel: {built.stat().st_size / 1e6:.1f} MB\n\n| extra | MB | more than none |\n|---|--:|--:|")
        bare = installed_bytes(built, "")
        print(f"| none | {bare / 1e6:.0f} | |", flush=True)
        for extra in names:
            size = installed_bytes(built, extra)
            print(f"| `{extra}` | {size / 1e6:.0f} | {(size - bare) / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    run(sys.argv[1:] or extras())
