"""How much one project may ask of the push service at a time."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_WINDOW_SECONDS = 1.0


class SlidingSecond:
    """At most ``limit`` recipients within any one second, wherever that second begins; 0 means no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._admitted: deque[tuple[float, int]] = deque()
        self._sum = 0

    def has_room(self, recipients: int, steady: float) -> bool:
        """Whether so many more still fit into the second that ends now."""
        while self._admitted and self._admitted[0][0] <= steady - _WINDOW_SECONDS:
            self._sum -= self._admitted.popleft()[1]
        return not self._limit or self._sum + recipients <= self._limit

    def admit(self, recipients: int, steady: float) -> None:
        """Count recipients in; refused ones never are."""
        if self._limit:
            self._admitted.append((steady, recipients))
            self._sum += recipients


class InFlight:
    """Counts requests between their head and their answer."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._count = 0

    @contextmanager
    def entered(self) -> Iterator[int]:
        """Count one request in for as long as it lasts; yields how many there are with it."""
        self._count += 1
        try:
            yield self._count
        finally:
            self._count -= 1

    def is_over(self, count: int) -> bool:
        """Whether so many requests at once are too many; a limit of 0 means none are."""
        return bool(self._limit) and count > self._limit
