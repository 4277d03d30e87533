"""Takes frames off the broker: one supervised connection, a bounded hand-over, acknowledgements last."""

import queue
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from shared.adapters.errors import BrokerRefused, BrokerUnavailable
from shared.adapters.stomp.connection import Connection, Credentials, IncomingMessage, connect_any
from shared.runtime.logs import get_logger
from shared.runtime.settings import BrokerAddress

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 10.0


@dataclass(frozen=True)
class Delivery:
    """A message together with the connection that it must be acknowledged on."""

    message: IncomingMessage
    connection: Connection

    def ack(self) -> None:
        """The message is done with: everything that follows from it is recorded or published."""
        self.connection.ack(self.message.ack_id)

    @property
    def is_stale(self) -> bool:
        """Whether the broker will deliver it again, or has done so."""
        return self.connection.closed.is_set()


class Subscriber:
    """Deliveries of some queues, over however many connections it takes.

    `prefetch` bounds how many are in flight on each queue.
    """

    def __init__(
        self,
        addresses: Sequence[BrokerAddress],
        credentials: Credentials,
        queues: Sequence[str],
        prefetch: int,
    ) -> None:
        self._addresses, self._credentials = addresses, credentials
        self._queues, self._prefetch = tuple(queues), prefetch
        self._deliveries: queue.Queue[Delivery | None] = queue.Queue()
        self.refused: str | None = None
        self._stop = threading.Event()
        self._connection: Connection | None = None
        self._thread = threading.Thread(target=self._supervise, name="subscriber", daemon=True)
        self._log = get_logger("broker")

    def start(self) -> None:
        """Begin to connect, subscribe and receive."""
        self._thread.start()

    def take(self, seconds: float) -> Delivery | None:
        """The next delivery; None after `seconds`, or when woken."""
        try:
            return self._deliveries.get(timeout=seconds)
        except queue.Empty:
            return None

    def wake(self) -> None:
        """End the current wait of `take`."""
        self._deliveries.put(None)

    @property
    def is_connected(self) -> bool:
        """Whether a subscribed connection is open now."""
        connection = self._connection
        return connection is not None and not connection.closed.is_set()

    def _supervise(self) -> None:
        pause = _FIRST_PAUSE
        while not self._stop.is_set():
            try:
                self._connection = connection = self._subscribed()
            except Exception as error:  # noqa: BLE001 - whatever the library raises, this thread must not die of it
                self.refused = str(error) if isinstance(error, BrokerRefused) else None
                self._log.warning("broker_unreachable", error=str(error), retry_in_s=round(pause, 1))
                self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - jitter, not a secret
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            self.refused, pause = None, _FIRST_PAUSE
            self._log.info("broker_connected", host=connection.address.host, port=connection.address.port)
            connection.closed.wait()
            if not self._stop.is_set():
                self._log.warning("broker_connection_lost")

    def _subscribed(self) -> Connection:
        # The callback needs the connection, which does not exist before the log-in; nothing arrives before SUBSCRIBE.
        holder: list[Connection] = []

        def hand_over(message: IncomingMessage) -> None:
            self._deliveries.put(Delivery(message, holder[0]))

        connection = connect_any(self._addresses, self._credentials, hand_over)
        holder.append(connection)
        try:
            for name in self._queues:
                connection.subscribe(name, self._prefetch)
        except BrokerUnavailable:
            connection.discard()
            raise
        return connection

    def close(self, seconds: float) -> None:
        """Disconnect, once the broker has read the last acknowledgement; what is unacknowledged it keeps."""
        self._stop.set()
        if self._connection is not None:
            self._connection.close(seconds)
        self._thread.join(timeout=seconds)
