"""Intake: takes frames off the broker, keeps the early ones a moment, hands them to workers, acknowledges last.

A frame is acknowledged only when its handler has returned, that is, when everything that follows from it is recorded
or published. A handler that cannot go on because something outside does not answer is called again; the frame stays
unacknowledged meanwhile, and if this process dies the broker gives it to another.
"""

import heapq
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from consumer.permits import Stopping
from shared.adapters.errors import BrokerRefused, Unavailable
from shared.adapters.stomp.bell import Bell
from shared.adapters.stomp.subscriber import Delivery, Subscriber
from shared.domain.envelope import Frame, Kind, Undecodable, decode
from shared.runtime.clock import boottime
from shared.runtime.lifecycle import Shutdown
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

# The broker rings shortly before the due instant; the rest is waited here. A frame that rings earlier than that is
# handled at once, which sends it back.
_WAIT_AT_MOST = 5.0
_IDLE_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


@dataclass(frozen=True)
class Work:
    """A delivery, and the frame in it or what is wrong with it."""

    delivery: Delivery
    frame: Frame | None
    fault: str = ""


class DueBuffer:
    """Work in the order of its time. `take` waits for the first to be due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Work]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._busy = 0

    def put(self, work: Work, due: float) -> None:
        """Add work that is due at `due` on the boottime clock."""
        with self._changed:
            heapq.heappush(self._heap, (due, next(self._numbers), work))
            self._changed.notify()

    def take(self) -> Work | None:
        """The next work once it is due; None when the buffer is closed. `done` must follow."""
        with self._changed:
            while not self._closed:
                wait = self._heap[0][0] - boottime() if self._heap else None
                if wait is not None and wait <= 0:
                    self._busy += 1
                    return heapq.heappop(self._heap)[2]
                self._changed.wait(wait)
            return None

    def done(self) -> None:
        """The work taken is finished with."""
        with self._changed:
            self._busy -= 1

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is being worked on."""
        with self._changed:
            return not self._heap and not self._busy

    def close(self) -> None:
        """Hand out nothing more; what waits is the broker's again once the connection ends."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


@dataclass(frozen=True)
class IntakeParts:
    """What an intake works with. `handle` may raise Unavailable (again), Stopping, or ValueError (undecodable)."""

    subscriber: Subscriber
    bell: Bell
    handle: Callable[[Frame], None]
    now: Callable[[], datetime]
    metrics: Metrics


class Intake:
    """Runs `workers` threads over the deliveries of a subscriber. `trouble` says what holds it up, None if nothing."""

    def __init__(self, parts: IntakeParts, kind: Kind, workers: int, shutdown: Shutdown) -> None:
        self._parts, self._kind, self._shutdown = parts, kind, shutdown
        self._buffer = DueBuffer()
        self._threads = [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True) for number in range(workers)
        ]
        self._log = get_logger("intake")
        self.trouble: str | None = None

    def run(self, *, once: bool) -> bool:
        """Work until asked to stop, or with `once` until nothing is left to do; whether everything ended in time."""
        self._shutdown.on_request(self._parts.subscriber.wake)
        for thread in self._threads:
            thread.start()
        self._parts.subscriber.start()
        while not self._shutdown.requested:
            delivery = self._parts.subscriber.take(_IDLE_SECONDS)
            if delivery is not None:
                self._accept(delivery)
            elif once and self._parts.subscriber.is_connected and self._buffer.is_idle:
                self._shutdown.request()
        return self._drain()

    def _accept(self, delivery: Delivery) -> None:
        try:
            frame = decode(delivery.message.body, self._kind)
        except Undecodable as error:
            self._buffer.put(Work(delivery, None, str(error)), boottime())
            return
        self._buffer.put(Work(delivery, frame), boottime() + self._wait_for(frame))

    def _wait_for(self, frame: Frame) -> float:
        """How many seconds to keep the frame: none if it is so early that it goes back, or if the time is unknown."""
        try:
            early = (frame.due_at - self._parts.now()) / timedelta(seconds=1)
        except Unavailable:
            return 0.0  # its handler will wait for the database, and look at the time then
        return early if early <= _WAIT_AT_MOST else 0.0

    def _work(self) -> None:
        while (work := self._buffer.take()) is not None:
            try:
                self._finish(work)
            except Exception:  # noqa: BLE001 - a worker that dies takes its share of all further work with it
                self._log.exception("worker_failed")
            finally:
                self._buffer.done()

    def _finish(self, work: Work) -> None:
        """Handle one delivery until it is done, or no longer ours to finish."""
        pause = _FIRST_PAUSE
        while not work.delivery.is_stale:
            try:
                result = self._handle(work)
            except Stopping:
                return
            except Exception as error:  # noqa: BLE001 - unacknowledged, it would take up room for as long as we live
                self._held_up(error, pause)
                if self._shutdown.wait(pause):
                    return
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            self.trouble = None
            work.delivery.ack()
            self._parts.metrics.frames.labels(result).inc()
            return

    def _held_up(self, error: Exception, pause: float) -> None:
        self.trouble = str(error) or type(error).__name__
        if isinstance(error, Unavailable | BrokerRefused):
            self._log.warning("held_up", error=self.trouble, retry_in_s=pause)
        else:
            self._log.exception("held_up", error=self.trouble, retry_in_s=pause)

    def _handle(self, work: Work) -> str:
        fault = work.fault
        if work.frame is not None:
            try:
                self._parts.handle(work.frame)
            except (Unavailable, BrokerRefused, Stopping):
                raise
            except Exception as error:  # noqa: BLE001 - one row nobody understands must not stop the others
                self._log.exception("frame_failed", error=type(error).__name__)
                if len(work.frame.ids) > 1:
                    return self._split(work.frame)
                fault = f"{type(error).__name__} while handling"
            else:
                return "done"
        # Nothing is lost: the row stays pending, and the sweep rings it again until its grace ends.
        self._log.error("dead_letter", queue=work.delivery.message.queue, reason=fault)
        self._parts.bell.bury(work.delivery.message.queue, work.delivery.message.body, fault)
        return "buried"

    def _split(self, frame: Frame) -> str:
        """One row among them cannot be handled: ring each alone, so that it costs its neighbours nothing."""
        now = self._parts.now()
        self._parts.bell.ring([replace(frame, ids=(one,), due_at=now) for one in frame.ids], now)
        return "split"

    @property
    def live_workers(self) -> int:
        """How many workers still work."""
        return sum(thread.is_alive() for thread in self._threads)

    def _drain(self) -> bool:
        """Take no more, finish what is in hand, acknowledge, disconnect; in this order, within the deadline."""
        self._buffer.close()
        for thread in self._threads:
            thread.join(timeout=self._shutdown.seconds_left)
        in_time = not any(thread.is_alive() for thread in self._threads)
        self._parts.subscriber.close(max(1.0, min(5.0, self._shutdown.seconds_left)))
        if not in_time:
            self._log.error("drain_deadline_passed")
        return in_time
