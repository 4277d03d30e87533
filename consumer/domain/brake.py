"""A brake on mass retirement: half of a fleet does not die in a minute, however firmly the provider says so. Pure."""

import threading
from collections import deque

WINDOW_SECONDS = 600.0


class RetireBrake:
    """Judges whether a share of dead devices is plausible.

    `share` and `minimum` are MASS_RETIRE_SHARE and MASS_RETIRE_MINIMUM: from `minimum` devices judged on, a batch or
    the last ten minutes with at least `share` of them dead is not believed.
    """

    def __init__(self, share: float, minimum: int) -> None:
        self._share, self._minimum = share, minimum
        self._recent: deque[tuple[float, int, int]] = deque()
        self._lock = threading.Lock()

    def believes(self, judged: int, dead: int, now: float) -> bool:
        """Whether `dead` of `judged` devices at `now` (seconds, growing) may be retired; remembers them."""
        if not judged:
            return True
        with self._lock:
            self._recent.append((now, judged, dead))
            while self._recent[0][0] <= now - WINDOW_SECONDS:
                self._recent.popleft()
            all_judged = sum(entry[1] for entry in self._recent)
            all_dead = sum(entry[2] for entry in self._recent)
        return not (dead and (self._is_implausible(judged, dead) or self._is_implausible(all_judged, all_dead)))

    def _is_implausible(self, judged: int, dead: int) -> bool:
        return judged >= self._minimum and dead >= self._share * judged
