"""The figures as a plot: bars on a logarithmic scale, drawn as SVG without a library."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

WIDTH, LEFT, RIGHT, BAR, GAP, GROUP = 760, 190, 110, 14, 4, 10
COLOURS = ("#2f6fb0", "#c96f2f")
SMALLEST = 1e-4
"""Seconds at the left edge."""

Times = Mapping[str, Mapping[str, float]]
"""Median seconds by kind of query and name."""


def plot(title: str, times: Times, beside: Mapping[str, str]) -> str:
    """Return a plot with a group of bars for each name, one for each kind; a name may be compared with another."""
    names = list(dict.fromkeys(name for found in times.values() for name in found))
    height = 50 + len(names) * (len(times) * (BAR + GAP) + GROUP)
    largest = max(seconds for found in times.values() for seconds in found.values())
    scale = (WIDTH - LEFT - RIGHT) / math.log10(largest / SMALLEST)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{title}</text>',
        *_legend(list(times)),
        *(part for row, name in enumerate(names) for part in _group(row, name, times, beside, scale)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(kinds: list[str]) -> Iterator[str]:
    for number, kind in enumerate(kinds):
        x = LEFT + number * 120
        yield f'<rect x="{x}" y="29" width="10" height="10" fill="{COLOURS[number]}"/>'
        yield f'<text x="{x + 15}" y="38">{kind}</text>'


def _group(row: int, name: str, times: Times, beside: Mapping[str, str], scale: float) -> Iterator[str]:
    top = 55 + row * (len(times) * (BAR + GAP) + GROUP)
    yield f'<text x="{LEFT - 10}" y="{top + BAR + GAP}" text-anchor="end">{name}</text>'
    for number, found in enumerate(times.values()):
        if name not in found:
            continue
        y = top + number * (BAR + GAP)
        width = max(1.0, scale * math.log10(found[name] / SMALLEST))
        ratio = f" ({found[name] / found[beside[name]]:,.1f} ×)" if name in beside else ""
        yield f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[number]}"/>'
        yield f'<text x="{LEFT + width + 5:.1f}" y="{y + 11}">{found[name] * 1e3:,.2f}{ratio}</text>'
