"""Bloom filters: which values a slice certainly does not hold, in about ten bits per value."""

from pruner.indexes.bloom_filter.index import BLOOM_FILTER, BloomFilter

__all__ = ["BLOOM_FILTER", "BloomFilter"]
