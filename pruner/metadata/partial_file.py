"""A file of which only some ranges of bytes were read, for a Parquet reader that needs no others."""

from __future__ import annotations

import io
from bisect import bisect_right


class PartialFile(io.RawIOBase):
    """A file of which only some pieces are there; to read elsewhere is an OSError.

    Args:
        starts: where each piece begins, ascending.
        pieces: their bytes.
        size: of the whole file.
    """

    def __init__(self, starts: list[int], pieces: list[bytes], size: int) -> None:
        super().__init__()
        self._starts = starts
        self._pieces = pieces
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go somewhere."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read what is within one piece."""
        number = bisect_right(self._starts, self._at) - 1
        start = self._at - self._starts[number] if number >= 0 else 0
        found = self._pieces[number][start : start + size] if number >= 0 and size >= 0 else b""
        if len(found) != size:
            raise OSError("these bytes were not read")
        self._at += size
        return found
