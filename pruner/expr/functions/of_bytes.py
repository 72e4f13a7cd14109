"""Trino's functions of bytes, in the shapes that come to functions of text which others have.

Others have digests of a text as small letters: `lower(to_hex(md5(to_utf8(s))))` is their `md5(s)`. Plans have these
names, the parser of Trino's text gives some of them other names.
"""

from __future__ import annotations

from typing import Final

from pruner.expr.nodes import Call, Expr, Literal

_HEX: Final = ("to_hex", "hex")


def of_bytes(call: Call) -> Call | None:
    """The function of text that a call is, whose bytes are those of a text; None where it is none."""
    match call.function, call.arguments:
        case "lower", (Call(name, (inner,)),) if name in _HEX:
            return _digest(inner)
        case "lower_hex", (inner,):
            return _digest(inner)
        case "to_hex" | "hex", (inner,):
            text = _text_of(inner)
            digest = _digest(inner)
            if text is not None:
                return Call("hex", (text,))
            return None if digest is None else Call("upper", (_named_again(digest),))
        case "length", (inner,):
            text = _text_of(inner)
            return None if text is None else Call("bytes", (text,))
        case _:
            return None


def _digest(node: Expr) -> Call | None:
    match node:
        case Call("md5" | "md5_digest", (inner,)):
            name = "md5"
        case Call("sha256", (inner,)) | Call("s_h_a2_digest", (inner, Literal(value=256))):
            name = "sha256"
        case _:
            return None
    text = _text_of(inner)
    return None if text is None else Call(name, (text,))


def _named_again(digest: Call) -> Call:
    """A digest in Trino's own spelling, as a part of what is not named yet."""
    [text] = digest.arguments
    return Call("lower", (Call("to_hex", (Call(digest.function, (Call("to_utf8", (text,)),)),)),))


def _text_of(node: Expr) -> Expr | None:
    """The text of which these are the bytes."""
    match node:
        case Call("to_utf8", (text,)) | Call("encode", (text, Literal(value="utf-8"))):
            return text
        case _:
            return None
