"""Texts that differ in integers alone, brought to one text, so that what depends on nothing else is learned once.

What is learned of one text and taken for another must hold for both. So only a text is shared of which there can
be no two opinions where its tokens begin and end: ASCII words, numbers, plain quotes, white space and everyday
operators. Comments, dollar quotes, prefixed quotes (`e'…'`), backslashes, signs of other scripts and numbers
written in any other way make a text that stands for itself alone.
"""

from __future__ import annotations

import re

_INTEGER = r"[1-9][0-9]*+(?![a-z0-9_.'\"])"
_OTHERS = (
    # The numbers of a type are part of it: DECIMAL(18, 3), INTEGER[7].
    r"(?:(?!(?:in|values)\b)[a-z_][a-z0-9_]*+\s*+\([0-9,\s]*+\)|\[\s*+[0-9]++\s*+\]"
    r"|\s++"
    r"|[a-z_][a-z0-9_]*+(?![$'\"&])"
    r"|(?:0[0-9]*+|[0-9]++\.[0-9]++(?:e[+-]?+[0-9]++)?+|[0-9]++e[+-]?+[0-9]++)(?![a-z0-9_.'\"])"
    r"|'[^']*+'(?![a-z0-9_\"])"
    r"|\"[^\"]++\"(?![a-z0-9_'])"
    r"|-(?!-)|/(?![*/])|\*(?!/)|\.(?!\s*+[0-9.])|\?(?!\s*+[0-9?])"
    r"|!=|::|:(?![a-z0-9_:])|\|\||[(),;=<>+%\[\]])++"
)
_PLAIN = re.compile(f"(?:{_INTEGER}|{_OTHERS})*+", re.IGNORECASE | re.ASCII)
_INTEGERS = re.compile(f"(?P<integer>{_INTEGER})|{_OTHERS}", re.IGNORECASE | re.ASCII)
_UNSURE = re.compile(r"[^ -~\t\r\n]|[\\$#{}@^~`]")
"""What makes a text stand for itself, wherever it stands."""

_LONGEST_INTEGER = 18


def with_typical_integers(text: str) -> str:
    """Put one and the same integer in the place of all those of a plain text that DuckDB takes for values of the
    same types; any other text stays.

    Each has as many digits as the one that it replaces: places in the text stay. The type of a literal follows
    from its number of bits and of digits, with an exact power of two, which has a negative counterpart in a
    smaller type, apart.
    """
    if _UNSURE.search(text) or not _PLAIN.fullmatch(text):
        return text
    return _INTEGERS.sub(_typical, text)


def _typical(found: re.Match[str]) -> str:
    digits = found["integer"]
    if digits is None:
        return found.group()
    if len(digits) > _LONGEST_INTEGER:
        return digits
    value = int(digits)
    power = 1 << (value.bit_length() - 1)
    return digits if value == power else str(max(power + 1, 10 ** (len(digits) - 1)))
