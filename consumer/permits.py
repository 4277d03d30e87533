"""Waits for a permit: room in the shared rate and one of the project's connections to Expo."""

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.limiter import Limiter, Permit
from shared.adapters.stomp.connection import unique_name
from shared.runtime.lifecycle import Shutdown
from shared.runtime.metrics import Metrics

# How long until another consumer may have given a connection back: a good answer takes about this long.
_BUSY_SECONDS = 0.02
_STOP_CHECK_SECONDS = 0.5


class Stopping(Exception):
    """The process was asked to stop before anything was begun; the broker keeps the frame."""


class Permits:
    """Hands out permits; each wait ends early when the process is asked to stop."""

    def __init__(self, limiter: Limiter, connections: int, shutdown: Shutdown, metrics: Metrics) -> None:
        self._limiter, self._shutdown, self._metrics = limiter, shutdown, metrics
        # One connection is always left to others: a process that is killed holds its own for a while, and must not
        # stop everybody. Waiting for one of our own threads asks no database.
        self._own = threading.BoundedSemaphore(max(1, connections - 1))

    @contextmanager
    def permit(self, recipients: int) -> Iterator[None]:
        """Hold a permit for one request of `recipients` (0 for a request for receipts).

        Raises:
            Stopping: asked to stop while waiting.
            DatabaseUnavailable: no permit can be had.

        """
        with self._metrics.permit_seconds.time():
            permit = self._acquire(recipients)
        try:
            if permit.wait_seconds and self._shutdown.wait(permit.wait_seconds):
                raise Stopping
            yield
        finally:
            self._release(permit)

    def await_turn(self, recipients: int) -> None:
        """Wait, directly before a request, until no rolling second is exceeded by it.

        A claim is held meanwhile, so this does not end early when the process is asked to stop; it takes
        milliseconds, and the deadline is looked at afterwards.
        """
        while (wait := self._limiter.take_turn(recipients)) > 0:
            time.sleep(wait)

    def _acquire(self, recipients: int) -> Permit:
        while not self._own.acquire(timeout=_STOP_CHECK_SECONDS):
            if self._shutdown.requested:
                raise Stopping
        try:
            return self._acquire_shared(recipients)
        except BaseException:
            self._own.release()
            raise

    def _acquire_shared(self, recipients: int) -> Permit:
        slot = unique_name()
        while (permit := self._limiter.acquire(slot, recipients)) is None:
            if self._shutdown.wait(_BUSY_SECONDS * random.uniform(0.5, 1.5)):  # noqa: S311 - jitter, not a secret
                raise Stopping
        return permit

    def _release(self, permit: Permit) -> None:
        self._own.release()
        try:
            self._limiter.release(permit)
        except DatabaseUnavailable:
            return  # it frees itself after its holding time
