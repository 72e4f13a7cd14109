"""Avro's binary form: records decoded as they are stored, and many records of one schema at once."""
