"""Puts frames on the broker, with the broker's receipt as the only proof."""

import threading
from collections.abc import Sequence

from shared.adapters.errors import BrokerUnavailable
from shared.adapters.stomp.connection import (
    Connection,
    Credentials,
    IncomingMessage,
    OutgoingMessage,
    connect_any,
)
from shared.runtime.settings import BrokerAddress

# One transaction's size: large enough to share a journal write, small enough to be repeated without regret.
TRANSACTION_SIZE = 500


class Publisher:
    """A connection that is made when first needed and replaced once it has failed. Safe for many threads."""

    def __init__(self, addresses: Sequence[BrokerAddress], credentials: Credentials) -> None:
        self._addresses, self._credentials = addresses, credentials
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send all, with receipts.

        Raises:
            BrokerUnavailable: any of them may or may not have arrived; publish again.
            BrokerRefused: the log-in is wrong.

        """
        for start in range(0, len(messages), TRANSACTION_SIZE):
            self._current().publish(messages[start : start + TRANSACTION_SIZE])

    def _current(self) -> Connection:
        with self._lock:
            if self._connection is None or self._connection.closed.is_set():
                self._connection = connect_any(self._addresses, self._credentials, _unasked)
            return self._connection

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open now."""
        connection = self._connection
        return connection is not None and not connection.closed.is_set()

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _unasked(_message: IncomingMessage) -> None:
    raise BrokerUnavailable("a publisher has no subscription")
