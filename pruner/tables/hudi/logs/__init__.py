"""Hudi's log files: blocks, and the Avro records in them."""
