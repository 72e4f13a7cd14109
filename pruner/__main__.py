"""`python -m pruner` is the command line."""

from __future__ import annotations

from pruner.cli import main

if __name__ == "__main__":
    main()
