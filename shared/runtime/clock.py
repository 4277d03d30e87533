"""Clocks. Decisions about rows are the database's; these serve waiting and measuring."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def utc_now() -> datetime:
    """This machine's idea of now, aware UTC."""
    return datetime.now(UTC)


def boottime() -> float:
    """Seconds on a clock that no adjustment moves and that runs on while the machine or process sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ServerClock:
    """The database server's clock, estimated locally between the moments at which it is asked.

    `ask` returns the server's now. The estimate never runs ahead of the server: half a round trip is unknown, so the
    earliest instant that fits is taken. Of three samples the one with the quickest answer counts.
    """

    REFRESH_SECONDS = 30.0

    def __init__(self, ask: Callable[[], datetime], passing: type[Exception]) -> None:
        self._ask, self._passing = ask, passing
        self._asked_at = float("-inf")
        self._is_known = False
        self._offset = timedelta()

    def now(self) -> datetime:
        """The server's now (aware UTC), at most half a round trip behind.

        While the server does not answer (`passing` errors) the last estimate serves; the first one must succeed.
        """
        if boottime() - self._asked_at > self.REFRESH_SECONDS:
            try:
                self._measure()
            except self._passing:
                if not self._is_known:
                    raise
                self._asked_at = boottime()  # not every caller shall wait for a server that is away
        return datetime.fromtimestamp(boottime(), UTC) + self._offset

    def _measure(self) -> None:
        best: tuple[float, timedelta] | None = None
        for _ in range(3):
            before = boottime()
            server = self._ask()
            after = boottime()
            sample = (after - before, server - datetime.fromtimestamp(after, UTC))
            best = min(best or sample, sample, key=lambda pair: pair[0])
        assert best is not None
        self._offset, self._asked_at, self._is_known = best[1], boottime(), True
