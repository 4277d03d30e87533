"""Relay: wake on every row that anybody inserts or moves, and put it on the broker in time.

The story: hold the lease, open the change stream at the stored place, scan for what is in the window and not on the
broker, then follow the stream. A place in the stream is stored only after the broker has answered for everything
before it, so that whatever is lost is read again. Another relay waits for the lease; if two ever worked at once,
rows would ring twice, which is harmless.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from creator.adopt import Adopter
from creator.backstop import Backstop
from creator.ringing import Now, Ringer
from creator.stream import Gathering, StreamReader
from creator.sweep import Sweeper
from shared.adapters.errors import BrokerRefused, BrokerUnavailable, Unavailable
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.changes import RelayState
from shared.adapters.stomp.connection import unique_name
from shared.runtime.ahead import one_ahead
from shared.runtime.clock import boottime
from shared.runtime.lifecycle import Shutdown
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

Document = dict[str, Any]

LEASE_SECONDS = 10.0
_RENEW_SECONDS = 3.0
_STREAM_WAIT_MS = 1_000
_SCAN_CHUNK = 2_000
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 10.0


@dataclass(frozen=True)
class RelayTiming:
    """The database's clock, how far ahead rows go on the broker, and how often to sweep."""

    now: Now
    window: timedelta
    sweep_every: timedelta


@dataclass(frozen=True)
class RelayParts:
    """What a relay works with."""

    state: RelayState
    backlog: Backlog
    ringer: Ringer
    sweeper: Sweeper
    adopter: Adopter
    metrics: Metrics


class Relay:
    """The relay stage. `trouble` says what it cannot do right now, None if nothing."""

    def __init__(self, parts: RelayParts, timing: RelayTiming) -> None:
        self._parts, self._timing = parts, timing
        self._owner = unique_name()
        self._renew_at = 0.0
        self._reader: StreamReader | None = None
        self._log = get_logger("relay")
        self.trouble: str | None = None

    def run_once(self) -> int:
        """Sweep, and put on the broker what is in the window now; how many rows were put there."""
        done = self._parts.sweeper.run(self._timing.now())
        return done["enqueued"] + done["rung_again"]

    def run(self, shutdown: Shutdown) -> None:
        """Work until asked to stop."""
        shutdown.on_request(self._wake)
        pause = _FIRST_PAUSE
        while not shutdown.requested:
            try:
                if self._holds_lease():
                    self._lead(shutdown)
                else:
                    self.trouble = None
                    shutdown.wait(_RENEW_SECONDS)
            except Exception as error:  # noqa: BLE001 - a relay that dies of one odd row rings nobody's
                if self.trouble is None:
                    pause = _FIRST_PAUSE  # it was well until now
                self._interrupted(error)
                shutdown.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        self._give_up_lease()

    def _wake(self) -> None:
        if self._reader is not None:
            self._reader.wake()

    def _interrupted(self, error: Exception) -> None:
        self.trouble = str(error)
        if isinstance(error, BrokerUnavailable):
            self._parts.metrics.publish_failures.inc()
        if isinstance(error, Unavailable | BrokerRefused):
            self._log.warning("relay_interrupted", error=str(error))
        else:
            self._log.exception("relay_failed", error=type(error).__name__)

    def _holds_lease(self) -> bool:
        if boottime() < self._renew_at:
            return True
        asked = boottime()
        held = self._parts.state.hold_lease(self._owner, int(LEASE_SECONDS * 1000))
        self._renew_at = asked + _RENEW_SECONDS if held else 0.0
        self._parts.metrics.is_leader.set(held)
        return held

    def _give_up_lease(self) -> None:
        try:
            self._parts.state.drop_lease(self._owner)
        except Unavailable as error:
            self._log.warning("lease_not_dropped", error=str(error))

    def _lead(self, shutdown: Shutdown) -> None:
        backstop = Backstop(self._scan, self._sweep, self._timing.sweep_every)
        with self._parts.state.feed(_STREAM_WAIT_MS) as feed, StreamReader(feed) as reader, backstop:
            self._reader = reader
            self._log.info("relay_leads")
            while not shutdown.requested and self._holds_lease():
                backstop.check()
                self._follow(reader)
                self.trouble = None

    def _sweep(self) -> None:
        self._parts.sweeper.run(self._timing.now())

    def _scan(self) -> None:
        """Ring what is in the window and was never rung: one chunk is noted, one published and one read at a time."""
        count = 0
        noted: Future[None] | None = None
        ringer = self._parts.ringer
        until = self._timing.now() + self._timing.window
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="note") as pool:
            for rows in one_ahead(self._parts.backlog.not_enqueued(until, _SCAN_CHUNK)):
                ids = ringer.publish(rows)
                if noted is not None:
                    noted.result()
                noted = pool.submit(ringer.note, ids)
                count += len(ids)
            if noted is not None:
                noted.result()
        self._log.info("scanned", rows=count)

    def _follow(self, reader: StreamReader) -> None:
        """Gather what the stream brings, send it out, and only then store the place."""
        gathering = Gathering(self._timing.window)
        gathering.collect(reader, self._timing.now())
        if gathering.place is None:
            return
        self._send_out(gathering)
        self._parts.state.keep_place(gathering.place)

    def _send_out(self, gathering: Gathering) -> None:
        now = self._timing.now()
        backlog = self._parts.backlog
        if gathering.foreign_ids:
            self._parts.adopter.adopt(backlog.incomplete(gathering.foreign_ids), now)
        rows = gathering.rows
        changed = gathering.moved_ids + gathering.foreign_ids
        if changed:
            rows = rows + [row for row in backlog.ringable(changed) if _is_within(row, now + gathering.window)]
        self._parts.ringer.ring(rows)


def _is_within(row: Document, until: datetime) -> bool:
    scheduled_at = row.get("scheduledAt")
    return isinstance(scheduled_at, datetime) and scheduled_at <= until
