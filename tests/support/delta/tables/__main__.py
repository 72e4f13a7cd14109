"""Builds the tables that are not there yet: `python -m tests.support.delta.tables`."""

from tests.support.delta.tables import main

main()
