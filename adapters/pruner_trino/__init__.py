"""Trino over pruned tables: its predicates decoded for the service, and a preview of what would be pruned."""

from pruner_trino.decode import decode_request
from pruner_trino.jar import plugin_jar
from pruner_trino.previewing import ScanPreview, preview

__all__ = ["ScanPreview", "decode_request", "plugin_jar", "preview"]

engine = "trino"
