"""Storage of bytes: local disk, object stores, memory."""
