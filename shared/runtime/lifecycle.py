"""How a service stops: once asked, in order, within a deadline; asked twice, at once."""

import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from shared.runtime.clock import boottime

EXIT_DONE, EXIT_FAULT, EXIT_USAGE = 0, 1, 2


class Shutdown:
    """A request to stop, shared by all threads of a process.

    `drain_seconds` is how long a service may take to finish what it holds once it is asked.
    """

    def __init__(self, drain_seconds: float = 25.0) -> None:
        self._drain_seconds = drain_seconds
        self._asked = threading.Event()
        self._deadline = float("inf")
        self._callbacks: list[Callable[[], None]] = []

    def listen(self) -> None:
        """React to SIGTERM and SIGINT. Call from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked.is_set():
            os._exit(EXIT_FAULT)  # asked twice: whatever is claimed comes back when its lease ends
        # A handler may interrupt the main thread inside any lock, so the work is done by another thread.
        threading.Thread(target=self.request, name="shutdown", daemon=True).start()

    def on_request(self, callback: Callable[[], None]) -> None:
        """Call `callback`, once, when the stop is asked for: to wake a wait that knows no event."""
        self._callbacks.append(callback)
        if self._asked.is_set():
            callback()

    def request(self) -> None:
        """Ask for the stop."""
        if not self._asked.is_set():
            self._deadline = boottime() + self._drain_seconds
            self._asked.set()
            for callback in self._callbacks:
                callback()

    @property
    def requested(self) -> bool:
        """Whether the stop has been asked for."""
        return self._asked.is_set()

    @property
    def seconds_left(self) -> float:
        """How much of the drain deadline is left; infinite while nobody has asked."""
        return max(0.0, self._deadline - boottime())

    def pause(self, seconds: float) -> None:
        """Wait `seconds`, or until the drain deadline: for what must be finished even while stopping."""
        time.sleep(min(seconds, self.seconds_left))

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds`; True as soon as the stop is asked for."""
        return self._asked.wait(seconds)
