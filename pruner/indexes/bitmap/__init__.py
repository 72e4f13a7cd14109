"""Bitmaps: for each value, the rows that hold it, in each slice."""

from pruner.indexes.bitmap.index import BITMAP, Bitmap

__all__ = ["BITMAP", "Bitmap"]
