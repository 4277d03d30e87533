"""Relay: notifications per second onto the broker, against one scheduled message each by bare stomp.py."""

import itertools
import json
import statistics
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import stomp
from bson import ObjectId
from pymongo.database import Database

from deploy.local.stack import LocalStack
from shared.domain.moves import LIVE
from tests.bench.figures import Duel, Figure, Wanted
from tests.bench.ground import Document, ground, wait_until_none
from tests.bench.population import CATEGORIES, message
from tests.bench.processes import Service

_ROWS = 20_000
_BARE_MESSAGES = 5_000
_TRANSACTION = 500
# A queue that the broker lets us write to and nobody reads.
_QUEUE = "/queue/notifications.bench"
_ROUNDS = 3
_MARKS = 20
_MARK_SECONDS = 300
_WAIT_SECONDS = 60.0
_WAITING = {**LIVE, "enqueuedAt": None}


def bench() -> list[Figure]:
    """From a backlog that a relay finds at its start, and from rows inserted while it runs."""
    duel, live = Duel(), []
    with ground() as here:
        for number in range(_ROUNDS):
            duel.bare.append(_bare(here.stack, number))
            with here.database() as (database, settings):
                _insert_rows(database)
                duel.ours.append(_from_backlog(database, settings))
                live.append(_from_stream(database, settings))
    rate = statistics.median(live)
    detail = "rows that appear while it runs, the insert's own time included"
    return [
        duel.figure("relay", "notifications/s", Wanted(5, 10)),
        Figure("relay, from the change stream", rate, "rows/s", detail),
    ]


def _from_backlog(database: Database[Document], settings: Mapping[str, str]) -> float:
    with Service(settings, "creator", "relay") as relay:
        began, _ = relay.wait_for("started", _WAIT_SECONDS)
        ended, line = relay.wait_for("scanned", _WAIT_SECONDS)
        assert line["rows"] == _ROWS, line
    assert database.notification_messages.find_one(_WAITING) is None
    return _ROWS / (ended - began)


def _from_stream(database: Database[Document], settings: Mapping[str, str]) -> float:
    with Service(settings, "creator", "relay") as relay:
        relay.wait_for("scanned", _WAIT_SECONDS)
        began = time.monotonic()
        _insert_rows(database)
        return _ROWS / (wait_until_none(database, _WAITING, _WAIT_SECONDS) - began)


def _insert_rows(database: Database[Document]) -> None:
    """Rows due on the five-minute marks of the coming hours, as reminders are, in all categories."""
    first = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(minutes=10)
    marks = itertools.cycle(first + timedelta(seconds=_MARK_SECONDS * mark) for mark in range(_MARKS))
    kinds = itertools.cycle(kind for kind in CATEGORIES for _ in range(_MARKS))
    rows = [message(ObjectId(), next(kinds), next(marks)) for _ in range(_ROWS)]
    database.notification_messages.insert_many(rows, ordered=False)


class _Receipts(stomp.ConnectionListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)

    def on_receipt(self, frame: stomp.utils.Frame) -> None:
        del frame
        self.arrived.release()


def _bare(stack: LocalStack, number: int) -> float:
    """Messages per second, each with a delay of its own: many on one instant would slow the broker down."""
    connection = stomp.Connection12([("127.0.0.1", stack.broker.port)], auto_content_length=False)
    receipts = _Receipts()
    connection.set_listener("receipts", receipts)
    connection.connect(stack.broker.credentials.login, stack.broker.credentials.passcode, wait=True)
    began = time.monotonic()
    for start in range(0, _BARE_MESSAGES, _TRANSACTION):
        transaction = connection.begin()
        for position in range(start, start + _TRANSACTION):
            headers = {"persistent": "true", "AMQ_SCHEDULED_DELAY": str(3_600_000 + 7 * position + number)}
            body = json.dumps({"v": 1, "kind": "send", "category": "meal", "ids": [str(ObjectId())]})
            connection.send(_QUEUE, body, headers=headers, transaction=transaction)
        connection.commit(transaction, receipt=f"{number}-{start}")
        assert receipts.arrived.acquire(timeout=_WAIT_SECONDS), "no receipt"
    rate = _BARE_MESSAGES / (time.monotonic() - began)
    connection.disconnect()
    return rate
