"""Requests that the service fell over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pruner.errors import PredicateError
from pruner.expr.wire_values import literal_of


@pytest.mark.parametrize("text", ["1e999999999", "-1e-999999999", "9" * 4000, "0e999999"])
def test_decimals_of_a_billion_digits_are_refused(text: str) -> None:
    """Exact arithmetic wrote them out, with every other request waiting: eleven characters stopped the service."""
    with pytest.raises(PredicateError, match="is none of type"):
        literal_of(text, pa.decimal128(38, 0))
