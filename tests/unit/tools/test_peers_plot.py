"""The plot of `python -m benchmarks head-to-head` is an SVG that shows the measurements."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.peers.plot import plot


def test_bars_and_ratios_are_those_of_what_was_measured() -> None:
    times = {"range": {"pruner": 0.001, "other": 0.1}, "key": {"pruner": 0.001, "other": 1.0, "third": 1.0}}
    drawn = plot("1,000 files", times, {"other": "pruner"})
    tree = ElementTree.fromstring(drawn)
    texts = ["".join(node.itertext()) for node in tree.iter() if node.tag.endswith("text")]
    assert "1,000 files" in texts
    assert {"1.00", "100.00 (100.0 ×)", "1,000.00 (1,000.0 ×)", "1,000.00"} <= set(texts)
    widths = [float(node.attrib["width"]) for node in tree.iter() if node.attrib.get("height") == "14"]
    # The range of the third was not measured. One decade from the left edge, three, and four: bars begin at 0.1 ms.
    assert len(widths) == 5
    assert widths[2] / widths[0] == pytest.approx(3, rel=0.01)
    assert widths[3] / widths[0] == pytest.approx(4, rel=0.01)
