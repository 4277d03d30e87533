"""Does the broker really delay? A message through the scheduler and back is the only proof.

Plain sends, log-in and TCP stay healthy while the scheduler is off, full or frozen.
"""

import threading
from collections.abc import Callable, Sequence

from shared.adapters.errors import BrokerRefused, BrokerUnavailable
from shared.adapters.stomp.connection import (
    Credentials,
    IncomingMessage,
    OutgoingMessage,
    connect_any,
    unique_name,
)
from shared.runtime.clock import boottime, utc_now
from shared.runtime.logs import get_logger
from shared.runtime.settings import BrokerAddress

QUEUE = "health.canary"
_DELAY_MS = 300
_PATIENCE_SECONDS = 15.0


def check_scheduler(addresses: Sequence[BrokerAddress], credentials: Credentials) -> float:
    """Send a delayed message to ourselves; how many seconds late it came.

    Raises:
        BrokerRefused: it came at once, so the broker does not delay at all, or the log-in is wrong.
        BrokerUnavailable: no broker, or a scheduler that does not fire.

    """
    name = unique_name()
    arrived = threading.Event()

    def on_message(message: IncomingMessage) -> None:
        if message.headers.get("canary") == name:
            connection_acks.append(message.ack_id)
            arrived.set()

    connection_acks: list[str] = []
    # Should this process die now, nobody is left to take it off the queue.
    headers = {"canary": name, "expires": str(int(utc_now().timestamp() * 1000) + 60_000)}
    connection = connect_any(addresses, credentials, on_message)
    try:
        connection.subscribe(QUEUE, prefetch=1, selector=f"canary = '{name}'")
        started = boottime()
        connection.publish([OutgoingMessage(QUEUE, "{}", _DELAY_MS, headers)])
        if not arrived.wait(_PATIENCE_SECONDS):
            raise BrokerUnavailable(f"the broker's scheduler did not fire within {_PATIENCE_SECONDS:g} s")
        took = boottime() - started
        connection.ack(connection_acks[0])
    finally:
        connection.close()
    if took < _DELAY_MS / 1000:
        raise BrokerRefused("the broker ignores AMQ_SCHEDULED_DELAY; switch its scheduler on (schedulerSupport)")
    return took - _DELAY_MS / 1000


class CanaryWatch:
    """Sends a canary now and then. `complaint` says what was wrong with the last one, None if it came in time."""

    def __init__(self, check: Callable[[], object], every_seconds: float = 30.0) -> None:
        self._check, self._every_seconds = check, every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="canary", daemon=True)
        self._log = get_logger("canary")
        self.complaint: str | None = None

    def start(self) -> None:
        """Begin; the first canary flies after one interval, since a service checks the broker when it starts."""
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self._check()
            except (BrokerRefused, BrokerUnavailable) as error:
                self.complaint = str(error)
                self._log.error("canary_lost", error=self.complaint)
            else:
                self.complaint = None

    def stop(self) -> None:
        """End; a canary in flight is not waited for."""
        self._stop.set()
