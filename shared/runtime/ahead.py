"""An iterator that works one step ahead of whoever consumes it."""

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_END = object()


def one_ahead(source: Iterable[T]) -> Generator[T]:
    """The items of `source`, each taken on another thread while the one before it is worked on; never two ahead.

    Worth it where taking an item is waiting for somebody else, as reading from a database is. What `source` raises is
    raised here, in its place.
    """
    items = iter(source)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="ahead") as pool:
        ahead = pool.submit(next, items, _END)
        while (item := ahead.result()) is not _END:
            ahead = pool.submit(next, items, _END)
            yield item  # type: ignore[misc]
