"""Builds the tables that are not there yet: `python -m tests.support.delta_tables`."""

from tests.support.delta_tables import main

main()
