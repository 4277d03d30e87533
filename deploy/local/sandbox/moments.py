"""One reading of the clocks, taken once per request and handed down, so that the judge itself reads none."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Moment:
    """The same instant on two clocks, both in seconds."""

    wall: float
    """Since the Unix epoch; what ledgers show and what ``expiration`` is compared with."""
    steady: float
    """Never jumps; what rates, delays and retention are measured with."""

    @classmethod
    def now(cls) -> "Moment":
        """The present instant."""
        return cls(time.time(), time.monotonic())

    @property
    def milliseconds(self) -> int:
        """The wall clock as whole milliseconds since the epoch, rounded down."""
        return int(self.wall * 1000)


def iso(milliseconds: int) -> str:
    """``2026-03-29T01:00:00.000Z`` for whole milliseconds since the epoch."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
