"""Threads for work that NumPy, SciPy or Polars do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["map_in_order"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """Call a function on each item in threads and yield the results in the items' order.

    Args:
        function: Spends its time in NumPy, SciPy or Polars, which let other threads run.
        items: Taken when a thread is free, so that at most `threads` + 1 are held.
        threads: How many calls run at once; with 1 they run in this thread.

    >>> list(map_in_order(abs, [-1, 2, -3], 2))
    [1, 2, 3]
    """
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            if len(pending) == threads:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
        while pending:
            yield pending.popleft().result()
