"""Statements to a Trino on this machine, and what the server says that it did for them."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trino.dbapi
from trino.exceptions import TrinoQueryError

Rows = list[tuple[Any, ...]]

START_SECONDS = 60
"""For a few seconds after the start the node is not known to itself, and statements are refused."""

SCANS = ("TableScanOperator", "ScanFilterAndProjectOperator")


@dataclass(frozen=True)
class Result:
    """Rows of a query, and what the server says that it did."""

    rows: Rows
    query_id: str
    stats: Mapping[str, Any]


@dataclass(frozen=True)
class TrinoClient:
    """Talks to the server that listens on a port of this machine."""

    port: int

    def connect(
        self, *, catalog: str, schema: str, session: Mapping[str, str] | None = None, zone: str = "UTC"
    ) -> trino.dbapi.Connection:
        """Return a connection whose session is in a zone."""
        return trino.dbapi.connect(
            host="127.0.0.1",
            port=self.port,
            user="tests",
            catalog=catalog,
            schema=schema,
            timezone=zone,
            session_properties=dict(session or {}),
        )

    def run(
        self,
        sql: str,
        *,
        catalog: str,
        schema: str,
        session: Mapping[str, str] | None = None,
        zone: str = "UTC",
    ) -> Result:
        """Run a statement and return all of its rows."""
        connection = self.connect(catalog=catalog, schema=schema, session=session, zone=zone)
        deadline = time.monotonic() + START_SECONDS
        while True:
            cursor = connection.cursor()
            try:
                cursor.execute(sql)
                rows = [tuple(row) for row in cursor.fetchall()]
                return Result(rows, str(cursor.query_id), cursor.stats or {})
            except TrinoQueryError as error:
                if error.error_name != "NO_NODES_AVAILABLE" or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def details(self, query_id: str) -> Any:
        """Return what the server knows of a query."""
        url = f"http://127.0.0.1:{self.port}/v1/query/{query_id}"
        request = urllib.request.Request(url, headers={"X-Trino-User": "tests"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())

    def metrics(self) -> str:
        """Return the server's page of metrics, in the form that OpenMetrics reads."""
        url = f"http://127.0.0.1:{self.port}/metrics"
        request = urllib.request.Request(url, headers={"X-Trino-User": "tests"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.read().decode()

    def splits_by_scan(self, query_id: str) -> Counter[str]:
        """Return how many splits each scan of a query has read, by its id in the plan.

        A scan that is left with no split reads one that is empty.
        """
        found: Counter[str] = Counter()
        for operator in self.details(query_id)["queryStats"]["operatorSummaries"]:
            if operator["operatorType"] in SCANS:
                found[operator["planNodeId"]] += operator["totalDrivers"]
        return found
