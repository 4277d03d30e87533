"""What every benchmark stands on: servers of its own, a database of its own, and the settings that point there."""

import contextlib
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import MongoClient, WriteConcern
from pymongo.database import Database

from deploy.local.sandbox.process import SandboxProcess
from deploy.local.stack import LocalStack
from shared.adapters.mongo.indexes import create_indexes
from shared.domain.moves import LIVE

Document = dict[str, Any]
_POLL_SECONDS = 0.05
UNLIMITED = ("--rate=0", "--connections=0")
# More than any machine reaches: the product then waits for nobody's permission but its own.
_NO_RATE = "1000000"


@dataclass(frozen=True)
class Ground:
    """Real servers, and the stand-in for Expo if the benchmark sends anything."""

    stack: LocalStack
    sandbox: SandboxProcess | None

    @contextlib.contextmanager
    def database(self, *, limited: bool = False) -> Iterator[tuple[Database[Document], dict[str, str]]]:
        """A new database with all indexes, and the settings for it; dropped afterwards.

        Unless `limited`, the product is told that Expo takes any rate.
        """
        name = f"bench_{uuid.uuid4().hex[:12]}"
        settings = self.stack.environment() | {"PUNKTLIG_MONGO_DB": name}
        if self.sandbox is not None:
            settings["PUNKTLIG_EXPO_URL"] = self.sandbox.url
        if not limited:
            settings["PUNKTLIG_EXPO_RATE_PER_SECOND"] = _NO_RATE
        client: MongoClient[Document]
        with MongoClient(self.stack.mongod.url, tz_aware=True, serverSelectionTimeoutMS=10_000) as client:
            database: Database[Document] = client.get_database(name, write_concern=WriteConcern("majority", j=True))
            create_indexes(database)
            yield database, settings
            client.drop_database(name)

    @property
    def expo(self) -> SandboxProcess:
        """The stand-in for Expo."""
        assert self.sandbox is not None
        return self.sandbox


@contextlib.contextmanager
def ground(*sandbox_flags: str) -> Iterator[Ground]:
    """Fresh servers in a temporary folder; with flags, a sandbox too."""
    with tempfile.TemporaryDirectory(prefix="punktlig-bench-") as folder, LocalStack(Path(folder)) as stack:
        if not sandbox_flags:
            yield Ground(stack, None)
            return
        with SandboxProcess(*sandbox_flags) as sandbox:
            yield Ground(stack, sandbox)


def wait_until_none(database: Database[Document], where: Document, seconds: float) -> float:
    """Wait until no message matches; when that was seen (monotonic). TimeoutError otherwise."""
    deadline = time.monotonic() + seconds
    where = {"scheduledAt": {"$type": "date"}, **where}  # so that an index on it serves
    while database.notification_messages.find_one(where, {"_id": 1}) is not None:
        if time.monotonic() > deadline:
            left = database.notification_messages.count_documents(where)
            raise TimeoutError(f"{left} messages still match {where} after {seconds:g} s")
        time.sleep(_POLL_SECONDS)  # a look costs the server 0.2 ms; nothing announces the last write
    return time.monotonic()


def ledger_of(here: Ground, database: Database[Document], count: int, seconds: float) -> list[Document]:
    """Wait until nothing is pending, then fetch the sandbox's ledger, which must hold `count` arrivals.

    The sandbox itself is left in peace meanwhile: it would have to write every batch for us a second time.
    """
    wait_until_none(database, LIVE, seconds)
    ledger = here.expo.ledger()
    assert len(ledger) == count, f"{len(ledger)} arrivals instead of {count}"
    return ledger


def next_minute(at_least_seconds: float) -> datetime:
    """The next whole minute that is at least so far ahead."""
    return (datetime.now(UTC) + timedelta(seconds=at_least_seconds + 60)).replace(second=0, microsecond=0)


def instants(ledger: list[Document]) -> list[datetime]:
    """When each entry of a sandbox's ledger arrived, in order."""
    return sorted(datetime.fromisoformat(entry["at"]) for entry in ledger)


def arrival_rate(ledger: list[Document]) -> float:
    """Arrivals per second from the first batch to the last; the first batch only starts the clock."""
    arrived = instants(ledger)
    first = sum(1 for instant in arrived if instant == arrived[0])
    return (len(arrived) - first) / (arrived[-1] - arrived[0]).total_seconds()
