"""The version of this package, where every module may import it from."""

from __future__ import annotations

__version__ = "0.1.0"
