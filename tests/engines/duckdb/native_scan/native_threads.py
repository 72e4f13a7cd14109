"""Many threads over one database with the native scan, each with random statements and other events among them.

`python -m tests.engines.duckdb.native_scan.native_threads --workers 8 --minutes 10` reports wrong rows, and a thread
that waits forever.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb

import pruner_duckdb
from pruner_duckdb.native_scan.answering import TableAnswers
from tests.engines.duckdb.duckdb_tables import indexed
from tests.engines.duckdb.native_scan.native_pair import NativePair, in_order, tape_of, write_tables
from tests.engines.duckdb.random.random_scripts import joined, mixed, over_views
from tests.engines.duckdb.random.random_statements import statement

HANGS = 300.0
"""Seconds after which a thread that has not finished a statement counts as hanging."""


class Threads:
    """Threads with cursors of their own, over one database pruned and one plain."""

    def __init__(self, roots: Mapping[str, Path], workers: int, seed: int) -> None:
        self._pair = NativePair(roots)
        self._small = {"readings": indexed(roots["readings"])}
        self._workers, self._seed = workers, seed
        self._permits = [threading.Lock() for _ in range(workers)]
        self._cursors: list[Any] = [None] * workers
        self.wrong: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self, goes_on: Callable[[int], bool]) -> None:
        """Let every thread take turns while `goes_on` is true; the caller's thread interrupts and forks."""
        original = TableAnswers.answer

        def answer(answers: TableAnswers, question: Mapping[str, Any]) -> Any:
            if random.random() < 0.05:
                gc.collect()
            return original(answers, question)

        threads = [
            threading.Thread(target=self._work, args=(number, goes_on), daemon=True)
            for number in range(self._workers)
        ]
        with patch.object(TableAnswers, "answer", answer):
            for thread in threads:
                thread.start()
            chance, turn = random.Random(self._seed), 0
            while any(thread.is_alive() for thread in threads):
                threads[chance.randrange(self._workers)].join(0.2)
                turn += 1
                self._interrupt(chance)
                if turn % 50 == 0:
                    self._fork()
        self._pair.close()

    def _interrupt(self, chance: random.Random) -> None:
        cursor = chance.choice(self._cursors)
        if cursor is not None:
            cursor.interrupt()
            self.seen["interrupts"] += 1

    def _fork(self) -> None:
        """Fork a child that opens its own database, while no other thread holds a lock that it would need."""
        for permit in self._permits:
            if not permit.acquire(timeout=HANGS):
                self._hangs()
        child = os.fork()
        if child == 0:
            signal.alarm(120)
            own = pruner_duckdb.connect(self._small, native="on")
            right = own.execute("SELECT n FROM readings WHERE n = 7").fetchall() == [(7,)]
            os._exit(0 if right and own.last_plans[-1].kept == 1 else 3)
        for permit in self._permits:
            permit.release()
        status = os.waitpid(child, 0)[1]
        self.seen["forks"] += 1
        if status:
            self.wrong.append(f"a child ends with {status}")

    @staticmethod
    def _hangs() -> None:
        faulthandler.dump_traceback(all_threads=True)
        print("a thread waits for ever", file=sys.stderr, flush=True)
        os._exit(4)

    def _work(self, number: int, goes_on: Callable[[int], bool]) -> None:
        cursor, plain = self._pair.native.cursor(), self._pair.plain.cursor()
        self._cursors[number] = cursor
        turn = 0
        while goes_on(turn):
            tape = tape_of(self._seed, 1_000_000 * number + turn)
            turn += 1
            sql = over_views(tape, tape.one_of((statement, joined, mixed))(tape))
            with self._permits[number]:
                try:
                    self._one(number, turn, sql, plain)
                except duckdb.Error as error:
                    self.wrong.append(f"{sql}\n  {type(error).__name__}: {error}")
            self.seen["turns"] += 1

    def _one(self, number: int, turn: int, sql: str, plain: Any) -> None:
        cursor = self._cursors[number]
        if turn % 7 == 0:
            # Dropped midway: the rest is never read.
            dropped = cursor.cursor()
            dropped.execute("SELECT * FROM events")
            dropped.fetchmany(turn % 3)
            if turn % 2:
                dropped.close()
            del dropped
        if turn % 97 == 0:
            with pruner_duckdb.connect(self._small, native="on") as own:
                own.execute("SELECT n FROM readings WHERE n = 7").fetchall()
        try:
            rows = self._fetched(cursor, sql, turn)
        except duckdb.InterruptException:
            self.seen["interrupted"] += 1
            return
        except duckdb.Error as error:
            rows = type(error).__name__
        try:
            expected = in_order(plain.execute(sql).fetchall())
        except duckdb.Error as error:
            expected = type(error).__name__
        if rows != expected:
            self.wrong.append(f"{sql}\n  native: {str(rows)[:500]}\n  plain: {str(expected)[:500]}")

    @staticmethod
    def _fetched(cursor: Any, sql: str, turn: int) -> Any:
        if turn % 3 == 0:
            return in_order(cursor.sql(sql).fetchall())
        cursor.execute(sql)
        rows: list[Any] = []
        if turn % 3 == 1:
            while some := cursor.fetchmany(5):
                rows.extend(some)
        else:
            while (row := cursor.fetchone()) is not None:
                rows.append(row)
        return in_order(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    faulthandler.enable()
    end = time.monotonic() + 60 * chosen.minutes
    # Canceled in time, or the process exits: hangs are what this looks for.
    faulthandler.dump_traceback_later(60 * chosen.minutes + HANGS, exit=True)
    with tempfile.TemporaryDirectory() as folder:
        threads = Threads(write_tables(Path(folder)), chosen.workers, chosen.seed)
        threads.run(lambda _: time.monotonic() < end)
    faulthandler.cancel_dump_traceback_later()
    for each in threads.wrong[:20]:
        print(each, flush=True)
    print(f"{len(threads.wrong)} wrong; {dict(threads.seen)}", flush=True)
    raise SystemExit(bool(threads.wrong))


if __name__ == "__main__":
    main()
