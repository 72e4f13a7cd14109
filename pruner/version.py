"""The version of this package, which every module may import from here."""

from __future__ import annotations

__version__ = "0.1.0"
