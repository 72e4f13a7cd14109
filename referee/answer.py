"""Answers queries with one reader: `python answer.py READER`, run in the environment of that reader.

A line of standard input is a JSON object with `root`, `format` and `condition`; a line of the output is one with
`ids`, or with `error`.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from conditions import UnsupportedError


def main(name: str) -> None:
    """Answer each line; what the reader itself prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        reader = importlib.import_module(f"readers.{name}")
        broken = None
    except ImportError as error:
        reader, broken = None, str(error)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if reader is None:
                raise UnsupportedError(broken)
            found = {"ids": sorted(reader.ids(question["root"], question["format"], question["condition"]))}
        except BaseException as error:  # a panic of a Rust library is no Exception
            found = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
