"""Planning beside the event loop, in a bounded number of threads, each plan in a bounded time."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from pruner.service.guard import RefusedError, acquired

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.service.settings import Limits

Result = TypeVar("Result")


class Work:
    """The threads of one service."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        # Threads end with their plan, not with the request that gave up on it, so their number is what bounds the work.
        self._threads = ThreadPoolExecutor(limits.concurrent, thread_name_prefix="pruner-plan")
        self._free = asyncio.Semaphore(limits.concurrent)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run planning in a thread.

        Raises:
            RefusedError: every thread stays taken (429), or it takes too long (408).
        """
        try:
            await acquired(self._free, self._limits.plan_seconds)
        except TimeoutError:
            raise RefusedError(429, f"{self._limits.concurrent} plans are being made: try again") from None
        running = asyncio.get_running_loop().run_in_executor(self._threads, work)
        running.add_done_callback(lambda _: self._free.release())
        try:
            async with asyncio.timeout(self._limits.plan_seconds):
                return await asyncio.shield(running)
        except TimeoutError:
            running.add_done_callback(_look_at)
            raise RefusedError(
                408, f"planning took longer than {self._limits.plan_seconds:g} seconds"
            ) from None


def _look_at(late: asyncio.Future[Any]) -> None:
    """Retrieve the exception of a plan that nobody waits for; asyncio would complain about it."""
    if not late.cancelled():
        late.exception()
