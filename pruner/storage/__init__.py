"""Where bytes are kept: local disk, object stores, memory."""
