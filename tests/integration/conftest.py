"""Fixtures over the real servers: a database with the product's indexes, rows planted in it, a broker to talk to."""

import contextlib
import itertools
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from consumer.expo.client import ExpoClient
from deploy.local.sandbox.process import SandboxProcess
from deploy.local.stack import LocalStack
from shared.adapters.mongo.client import Database, connect
from shared.adapters.mongo.indexes import create_indexes
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.stomp.connection import Credentials
from shared.domain.moves import Move
from shared.runtime.settings import BrokerAddress, parse_broker_addresses

Document = dict[str, Any]


class Rows:
    """Notification messages as a test plants, moves and sees them."""

    def __init__(self, database: Database) -> None:
        self.collection = database["notification_messages"]
        self.store = MessageStore(database)
        self._numbers = itertools.count()

    def document(self, **fields: Any) -> Document:
        """A free, due row of its own reminder; `...` as a value leaves the field out."""
        number = next(self._numbers)
        now = datetime.now(UTC)
        row = {
            "_id": uuid.uuid4().hex,
            "userId": f"user-{number}",
            "deviceId": f"device-{number}",
            "notificationTokenId": f"token-{number}",
            "reminderId": f"reminder-{number}",
            "category": "meal",
            "label": "lunch",
            "localDate": "2026-06-01",
            "localTime": "12:00",
            "timezone": "Europe/Copenhagen",
            "scheduledAt": now - timedelta(seconds=5),
            "title": "Lunch",
            "body": "Time to eat",
            "data": {},
            "createdAt": now - timedelta(hours=1),
            "plannedAt": now - timedelta(hours=1),
            "status": "pending",
            "reason": None,
            "isDeleted": False,
            "resolvedAt": None,
            "enqueuedAt": None,
            "claim": None,
            "attempts": 0,
            "attemptId": None,
            "attemptStartedAt": None,
            "unresolvedAttempts": 0,
            "nextAttemptAt": None,
            "sentAt": None,
            "ticketId": None,
        }
        return {name: value for name, value in {**row, **fields}.items() if value is not ...}

    def plant(self, **fields: Any) -> Any:
        """Insert one row and return its id."""
        row = self.document(**fields)
        self.collection.insert_one(row)
        return row["_id"]

    def plant_many(self, count: int, **fields: Any) -> list[Any]:
        """Insert `count` rows and return their ids."""
        rows = [self.document(**fields) for _ in range(count)]
        self.collection.insert_many(rows)
        return [row["_id"] for row in rows]

    def see(self, row_id: Any) -> Document:
        """The row as it is now."""
        row = self.collection.find_one({"_id": row_id})
        assert row is not None
        return row

    def make(self, move: Move) -> int:
        """Make a guarded move; how many rows moved."""
        return self.store.apply(move)


def ago(seconds: float) -> datetime:
    """An instant in the past."""
    return datetime.now(UTC) - timedelta(seconds=seconds)


@pytest.fixture(scope="module")
def indexed(stack: LocalStack) -> Iterator[Database]:
    """A database of the module's own, with every index; `db` is what a test should ask for."""
    database = connect(stack.mongod.url, f"test_{uuid.uuid4().hex}", "tests")
    create_indexes(database)
    yield database
    database.client.drop_database(database.name)
    database.client.close()


@pytest.fixture
def db(indexed: Database) -> Iterator[Database]:
    """An empty database with every index."""
    yield indexed
    for name in indexed.list_collection_names():
        indexed[name].delete_many({})


@pytest.fixture
def rows(db: Database) -> Rows:
    """Planted notification messages."""
    return Rows(db)


@pytest.fixture
def held() -> Callable[..., Document]:
    """A claim of `owner` that ends in `seconds`."""

    def claim(owner: str = "me", seconds: float = 60.0) -> Document:
        return {"owner": owner, "expiresAt": ago(-seconds)}

    return claim


@pytest.fixture
def brokers(stack: LocalStack) -> tuple[BrokerAddress, ...]:
    """The address of the real broker."""
    return parse_broker_addresses(stack.broker.url)


@pytest.fixture
def credentials(stack: LocalStack) -> Credentials:
    """The services' log-in."""
    return Credentials(stack.broker.credentials.login, stack.broker.credentials.passcode)


class FakeBroker:
    """A STOMP listener that gets things wrong on purpose: how a real broker cannot be made to behave.

    `delays` False hands delayed messages over at once; `fires` False never does; `greeting` answers CONNECT.
    """

    CONNECTED = b"CONNECTED\nversion:1.2\n\n\0"

    def __init__(self, greeting: bytes | None = CONNECTED, *, hangs_up: bool = False, fires: bool = True) -> None:
        self._greeting, self._hangs_up, self._fires = greeting, hangs_up, fires
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = BrokerAddress("127.0.0.1", self._server.getsockname()[1], tls=False)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End the listener and every connection."""
        for one in (self._server, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            while piece := connection.recv(65536):
                buffer += piece
                while b"\0" in buffer:
                    frame, _, buffer = buffer.partition(b"\0")
                    self._answer(connection, frame.lstrip(b"\r\n"))

    def _answer(self, connection: socket.socket, frame: bytes) -> None:
        head, _, body = frame.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        if command in {"CONNECT", "STOMP"} and self._greeting is not None:
            connection.sendall(self._greeting)
            if self._hangs_up:
                connection.shutdown(socket.SHUT_RDWR)
        if "receipt" in headers:
            connection.sendall(f"RECEIPT\nreceipt-id:{headers['receipt']}\n\n\0".encode())
        if command == "SEND" and self._fires:
            canary = headers.get("canary", "")
            told = (
                f"MESSAGE\nsubscription:x\nmessage-id:1\nack:1\ncanary:{canary}\ndestination:{headers['destination']}"
            )
            connection.sendall(told.encode() + b"\n\n" + body + b"\0")


@pytest.fixture
def fake_broker() -> Iterator[Callable[..., FakeBroker]]:
    """Starts fake brokers that end with the test."""
    started: list[FakeBroker] = []

    def start(*arguments: Any, **options: Any) -> FakeBroker:
        started.append(FakeBroker(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def queue() -> str:
    """The name of a queue that only this test uses."""
    return f"notifications.test-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def sandbox_process() -> Iterator[SandboxProcess]:
    """A sandbox without a limit on the rate, and with receipts at once."""
    with SandboxProcess("--rate=0", "--receipt-delay=0") as process:
        yield process


@pytest.fixture
def expo(sandbox_process: SandboxProcess) -> Iterator[SandboxProcess]:
    """That sandbox, with nothing in its ledger and no fault ordered."""
    sandbox_process.reset()
    yield sandbox_process
    sandbox_process.reset()


@pytest.fixture
def client(expo: SandboxProcess) -> ExpoClient:
    """An Expo client of the product, pointed at it."""
    return ExpoClient(expo.url, 5.0)
