"""The plot of `python -m benchmarks peers` is an SVG that shows what was measured, for the larger number of files."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.peers.plot import plot


def test_bars_and_ratios_are_those_of_the_larger_number_of_files() -> None:
    few = {"range": {"pruner": 1.0, "other": 1.0}}
    many = {"range": {"pruner": 0.001, "other": 0.1}, "conjunction": {"pruner": 0.001, "other": 1.0}}
    drawn = plot({10_000: few, 100_000: many}, "pruner")
    tree = ElementTree.fromstring(drawn)
    texts = ["".join(node.itertext()) for node in tree.iter() if node.tag.endswith("text")]
    assert "Planning over 100,000 files: milliseconds, logarithmic" in texts
    assert {"1.00", "100.00 (100.0 ×)", "1,000.00 (1,000.0 ×)"} <= set(texts)
    widths = [float(node.attrib["width"]) for node in tree.iter() if node.attrib.get("height") == "14"]
    # One decade from the left edge, three, and four: 0.1 ms is where bars begin.
    assert widths[2] / widths[0] == pytest.approx(3, rel=0.01)
    assert widths[3] / widths[0] == pytest.approx(4, rel=0.01)
