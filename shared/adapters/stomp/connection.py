"""One STOMP connection, from log-in to its end; never mended, always replaced.

The client library reconnects, waits and calls back in ways that lose heart-beats or block for ever (threads started in
a fixed order, waits without a time-out, callbacks on the reading thread). So here every wait has its own time-out,
callbacks do nothing but hand over, and a connection that has failed is thrown away whole.
"""

import contextlib
import os
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import stomp
import stomp.exception

from shared.adapters.errors import BrokerRefused, BrokerUnavailable
from shared.runtime.settings import BrokerAddress

HEARTBEAT_MS = 10_000
CONNECT_SECONDS = 5.0
# While a burst fires the broker may keep a receipt back for seconds.
RECEIPT_SECONDS = 30.0
_SEND_BLOCKED_SECONDS = 5
# The library's reading thread may take the socket away while another one sends: that is an AttributeError.
_LOST = (stomp.exception.StompException, OSError, AttributeError)


@dataclass(frozen=True)
class Credentials:
    """How to log in. `ca_file` is the authority for `stomp+ssl`, None for the system's."""

    login: str
    passcode: str = field(repr=False)
    ca_file: str | None = None


@dataclass(frozen=True)
class OutgoingMessage:
    """A persistent message; `delay_ms` 0 means at once. Headers are always built from scratch."""

    queue: str
    body: str | bytes
    delay_ms: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)

    def stomp_headers(self) -> dict[str, str]:
        """The headers of its SEND frame."""
        headers = {"persistent": "true", "content-type": "application/json", **self.headers}
        if isinstance(self.body, bytes):
            headers["content-length"] = str(len(self.body))  # bytes may hold the frame's own end mark
        if self.delay_ms:
            headers["AMQ_SCHEDULED_DELAY"] = str(self.delay_ms)
        return headers


@dataclass(frozen=True)
class IncomingMessage:
    """A message as it came. `ack_id` is what an acknowledgement must name on the connection it came by."""

    queue: str
    body: bytes
    ack_id: str
    headers: Mapping[str, str]


class _Receipt:
    """Somebody waits for the broker's answer to one frame."""

    def __init__(self) -> None:
        self._answered = threading.Event()
        self._failure: str | None = None

    def settle(self, failure: str | None = None) -> None:
        self._failure = failure
        self._answered.set()

    def wait(self, seconds: float) -> None:
        if not self._answered.wait(seconds):
            raise BrokerUnavailable(f"no receipt within {seconds:g} s")
        if self._failure is not None:
            raise BrokerUnavailable(self._failure)


class Connection:
    """A logged-in connection to one broker address.

    Raises:
        BrokerUnavailable: nobody answers there.
        BrokerRefused: the log-in is wrong.

    """

    def __init__(
        self, address: BrokerAddress, credentials: Credentials, on_message: Callable[[IncomingMessage], None]
    ) -> None:
        self.address = address
        self.closed = threading.Event()
        self._on_message = on_message
        self._logged_in = threading.Event()
        self._refusal: str | None = None
        self._receipts: dict[str, _Receipt] = {}
        self._lock = threading.Lock()
        where = [(address.host, address.port)]
        self._stomp = stomp.Connection12(
            where,
            heartbeats=(HEARTBEAT_MS, HEARTBEAT_MS),
            timeout=CONNECT_SECONDS,
            reconnect_attempts_max=1,
            try_loopback_connect=False,
            auto_decode=False,
            auto_content_length=False,
        )
        if address.tls:
            self._stomp.set_ssl(where, ca_certs=credentials.ca_file)
        # The name must sort after the library's own listener, which starts the heart-beats.
        self._stomp.set_listener("punktlig", _Listener(self))
        self._open(credentials)

    def _open(self, credentials: Credentials) -> None:
        try:
            self._stomp.connect(credentials.login, credentials.passcode, wait=False)
            in_time = self._logged_in.wait(CONNECT_SECONDS)
        except _LOST as error:
            raise BrokerUnavailable(f"{self._name}: nobody answers (PUNKTLIG_STOMP_URLS)") from error
        if self._refusal is not None:
            self.discard()
            raise BrokerRefused(f"{self._name}: {self._refusal}")
        if not in_time or self.closed.is_set():
            self.discard()
            raise BrokerUnavailable(f"{self._name}: no answer to the log-in")
        if not self.address.tls:
            self._bound_sends()

    def _bound_sends(self) -> None:
        # Without it a frozen broker blocks a send, and with it the heart-beats that would notice, for ever.
        limit = struct.pack("ll", _SEND_BLOCKED_SECONDS, 0)
        try:
            self._stomp.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        except _LOST as error:  # it has hung up meanwhile
            self.discard()
            raise BrokerUnavailable(f"{self._name}: hung up after the log-in") from error

    @property
    def _name(self) -> str:
        return f"broker {self.address.host}:{self.address.port}"

    def publish(self, messages: Sequence[OutgoingMessage]) -> None:
        """Send all in one transaction and wait for its receipt; only then are they durable.

        Raises:
            BrokerUnavailable: none, some or all of them may have arrived.

        """
        receipt_id, receipt = self._expect_receipt()
        with self._guarded():
            if len(messages) == 1:
                self._send(messages[0], receipt=receipt_id)
            else:
                transaction = self._stomp.begin()
                for message in messages:
                    self._send(message, transaction=transaction)
                self._stomp.commit(transaction, receipt=receipt_id)
        self._await_receipt(receipt_id, receipt)

    def _send(self, message: OutgoingMessage, **headers: str) -> None:
        self._stomp.send(f"/queue/{message.queue}", message.body, headers=message.stomp_headers(), **headers)

    def subscribe(self, queue: str, prefetch: int, selector: str | None = None) -> None:
        """Receive from `queue`, each message to be acknowledged by itself."""
        headers = {"activemq.prefetchSize": str(prefetch)}
        if selector is not None:
            headers["selector"] = selector
        receipt_id, receipt = self._expect_receipt()
        with self._guarded():
            self._stomp.subscribe(
                f"/queue/{queue}", id=queue, ack="client-individual", headers=headers, receipt=receipt_id
            )
        self._await_receipt(receipt_id, receipt)

    def ack(self, ack_id: str) -> None:
        """Acknowledge one message; if the connection is gone the broker delivers it again, which is harmless."""
        with contextlib.suppress(*_LOST):
            self._stomp.ack(ack_id)

    def close(self, seconds: float = CONNECT_SECONDS) -> None:
        """Disconnect once the broker has read everything sent before, acknowledgements too."""
        receipt_id, receipt = self._expect_receipt()
        try:
            with self._guarded():
                self._stomp.disconnect(receipt=receipt_id)
            receipt.wait(seconds)
        except BrokerUnavailable:
            pass
        finally:
            self.discard()

    def discard(self) -> None:
        """Give the connection up without a word."""
        self._lose("connection given up")
        with contextlib.suppress(*_LOST):
            self._stomp.transport.disconnect_socket()

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        if self.closed.is_set():
            raise BrokerUnavailable(f"{self._name}: connection lost")
        try:
            yield
        except _LOST as error:
            self.discard()
            raise BrokerUnavailable(f"{self._name}: {str(error) or type(error).__name__}") from error

    def _expect_receipt(self) -> tuple[str, _Receipt]:
        receipt_id, receipt = uuid.uuid4().hex, _Receipt()
        with self._lock:
            self._receipts[receipt_id] = receipt
        return receipt_id, receipt

    def _await_receipt(self, receipt_id: str, receipt: _Receipt) -> None:
        try:
            receipt.wait(RECEIPT_SECONDS)
        except BrokerUnavailable as error:
            self.discard()
            raise BrokerUnavailable(f"{self._name}: {error}") from None
        finally:
            with self._lock:
                self._receipts.pop(receipt_id, None)

    def _settle(self, receipt_id: str, failure: str | None = None) -> None:
        with self._lock:
            receipt = self._receipts.pop(receipt_id, None)
        if receipt is not None:
            receipt.settle(failure)

    def _lose(self, why: str) -> None:
        self.closed.set()
        self._logged_in.set()
        with self._lock:
            waiting, self._receipts = list(self._receipts.values()), {}
        for receipt in waiting:
            receipt.settle(why)

    def _refuse(self, why: str) -> None:
        if not self._logged_in.is_set():
            self._refusal = why
            self._logged_in.set()


class _Listener(stomp.ConnectionListener):  # type: ignore[misc]
    """Runs on the reading thread: hands over and returns, and never raises, which would close the connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def on_connected(self, _frame: stomp.utils.Frame) -> None:
        self._connection._logged_in.set()  # noqa: SLF001 - the other half of the same class

    def on_disconnected(self) -> None:
        self._connection._lose("connection lost")  # noqa: SLF001

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        self._connection._settle(frame.headers.get("receipt-id", ""))  # noqa: SLF001

    def on_error(self, frame: stomp.utils.Frame) -> None:
        why = frame.headers.get("message") or "ERROR frame"
        receipt_id = frame.headers.get("receipt-id")
        if receipt_id:
            self._connection._settle(receipt_id, why)  # noqa: SLF001
        self._connection._refuse(why)  # noqa: SLF001

    def on_message(self, frame: stomp.utils.Frame) -> None:
        headers = frame.headers
        body = frame.body if isinstance(frame.body, bytes) else str(frame.body).encode()
        queue = headers.get("destination", "").removeprefix("/queue/")
        self._connection._on_message(IncomingMessage(queue, body, headers.get("ack", ""), headers))  # noqa: SLF001


def connect_any(
    addresses: Sequence[BrokerAddress],
    credentials: Credentials,
    on_message: Callable[[IncomingMessage], None],
) -> Connection:
    """A connection to the first address of the fail-over list that answers.

    Raises:
        BrokerUnavailable: none does; the text is of the last one.
        BrokerRefused: one answers and will not have us.

    """
    failure: BrokerUnavailable | None = None
    for address in addresses:
        try:
            return Connection(address, credentials, on_message)
        except BrokerUnavailable as error:
            failure = error
    assert failure is not None, "the list of addresses is never empty"
    raise failure


def unique_name() -> str:
    """A name for one thing of this process."""
    return f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
