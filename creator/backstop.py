"""The relay's backstop: its first scan and its sweeps, beside the stream and never before it."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Self

_PATIENCE_SECONDS = 3.0


class Backstop:
    """The scan and then the sweeps, on a thread of their own: however long they take, the stream is followed."""

    def __init__(self, scan: Callable[[], None], sweep: Callable[[], None], every: timedelta) -> None:
        self._scan, self._sweep, self._every = scan, sweep, every
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="backstop", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        # Begin nothing more; what runs is harmless beside another relay's, and ends with the process at the latest.
        self._stopped.set()
        self._thread.join(timeout=_PATIENCE_SECONDS)

    def _run(self) -> None:
        try:
            self._scan()
            while not self._stopped.is_set():
                self._sweep()
                self._stopped.wait(self._every.total_seconds())
        except Exception as error:  # noqa: BLE001 - raised again where the stream is followed
            self._failure = error

    def check(self) -> None:
        """Raise what the thread died of."""
        if self._failure is not None:
            raise self._failure
