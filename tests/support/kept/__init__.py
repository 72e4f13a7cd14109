"""Real tables that tests read and that are made once: by Spark, or from the archives in `tests/fixtures/tables`."""
