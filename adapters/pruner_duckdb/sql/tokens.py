"""The tokens of a statement, to the extent that DuckDB's own lexer and this code must agree on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_SPACE = "\u00a0\u2000-\u200b\u202f\u205f\u2060\u3000\ufeff"
_OTHER_SPACES = re.compile(f"[{_SPACE}]")
"""Characters that DuckDB reads as spaces besides those of ASCII: it replaces them before it counts bytes."""

_SPACE_BYTES = rb"\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe2\x81[\x9f\xa0]|\xe3\x80\x80|\xef\xbb\xbf"
_TOKENS = re.compile(
    rb"(?P<gap>(?:\s|" + _SPACE_BYTES + rb")+|--[^\r\n]*)"
    rb"|(?P<comment>/\*)"
    rb"|(?P<text>[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$)"
    rb"|(?P<name>\"(?:[^\"]|\"\")*\"|[A-Za-z_\x80-\xff](?:(?!" + _SPACE_BYTES + rb")[\w$\x80-\xff])*)"
    rb"|(?P<mark>\?\d*|\$\w+)"
    rb"|(?P<number>\d[\w.]*)"
    rb"|(?P<sign>.)",
    re.DOTALL,
)
_COMMENT_ENDS = re.compile(rb"/\*|\*/")
OPENING, CLOSING = frozenset(b"([{"), frozenset(b")]}")


@dataclass(frozen=True, slots=True)
class Token:
    """One token: `kind` is text, name, mark (of a parameter), number or sign; positions count bytes."""

    kind: str
    start: int
    stop: int
    text: str

    @property
    def identifier(self) -> str | None:
        """The name in lower case and without quotes, if this is one."""
        if self.kind != "name":
            return None
        bare = self.text[1:-1].replace('""', '"') if self.text.startswith('"') else self.text
        return bare.lower()


def tokens(text: bytes) -> Iterator[Token]:
    """Yield the tokens of a statement, without white space and comments."""
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            return
        kind = str(match.lastgroup) if match.lastgroup != "tag" else "text"
        position = _comment_end(text, match.end()) if kind == "comment" else match.end()
        if kind not in ("gap", "comment"):
            yield Token(kind, match.start(), position, match.group().decode(errors="replace"))


def depth_change(token: Token) -> int:
    """The change in bracket depth by a token: 1 for an opening bracket, -1 for a closing one, else 0."""
    if token.kind != "sign":
        return 0
    sign = token.text.encode()[0]
    return (sign in OPENING) - (sign in CLOSING)


def with_plain_spaces(text: str) -> str:
    """Replace non-ASCII characters that DuckDB reads as spaces by ASCII spaces; quoted text stays unchanged."""
    if not _OTHER_SPACES.search(text):
        return text
    encoded = text.encode()
    parts: list[str] = []
    position = 0
    for token in tokens(encoded):
        if token.kind == "text" or token.text.startswith('"'):
            parts.append(_OTHER_SPACES.sub(" ", encoded[position : token.start].decode()))
            parts.append(encoded[token.start : token.stop].decode())
            position = token.stop
    parts.append(_OTHER_SPACES.sub(" ", encoded[position:].decode()))
    return "".join(parts)


def _comment_end(text: bytes, position: int) -> int:
    """Where a comment ends; comments may be nested."""
    depth = 1
    while depth:
        mark = _COMMENT_ENDS.search(text, position)
        if mark is None:
            return len(text)
        depth += 1 if mark.group() == b"/*" else -1
        position = mark.end()
    return position
