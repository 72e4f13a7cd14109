"""Avro's binary encoding: records decoded as stored, and many records of one schema at once."""
