"""A circuit breaker: when Expo does not answer, stop asking, and then ask with one row. Pure: time is passed in."""

import threading
from dataclasses import dataclass
from typing import Literal

FAILURES_TO_OPEN = 3
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 60.0


@dataclass(frozen=True)
class Allowance:
    """How many rows a request may carry now (None: as many as it has), and if none, seconds until asking again."""

    rows: int | None
    retry_in: float = 0.0


class Breaker:
    """Closed, open or half-open, for one process. Instants are seconds on a clock that only grows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failures = 0
        self._pause = 0.0
        self._probe_at = 0.0
        self.reason: str | None = None

    @property
    def state(self) -> Literal["closed", "open"]:
        """Closed lets everything pass; open lets one probe pass now and then."""
        return "open" if self.reason is not None else "closed"

    def ask(self, now: float, *, re_send: bool = False) -> Allowance:
        """What may be tried at `now`. A half-open breaker hands out one probe at a time.

        With `re_send` all that could be tried was perhaps sent before: it is no probe unless nothing else has come
        for a long while.
        """
        with self._lock:
            if self.reason is None:
                return Allowance(None)
            patience = LONGEST_PAUSE if re_send else 0.0
            if now < self._probe_at + patience:
                wait = self._probe_at - now
                return Allowance(0, wait if wait > 0 else FIRST_PAUSE)
            self._probe_at = now + self._pause
            return Allowance(1)

    def succeeded(self) -> None:
        """Expo answered: close."""
        with self._lock:
            self._failures, self._pause, self.reason = 0, 0.0, None

    def failed(self, now: float, why: str) -> None:
        """No usable answer; the third in a row opens it, each further one makes the pause longer."""
        with self._lock:
            self._failures += 1
            if self._failures >= FAILURES_TO_OPEN:
                self._open(now, why)

    def trip(self, now: float, why: str) -> None:
        """Open at once: trying with another message would not help."""
        with self._lock:
            self._failures = FAILURES_TO_OPEN
            self._open(now, why)

    def _open(self, now: float, why: str) -> None:
        self.reason = why
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self._probe_at = now + self._pause
