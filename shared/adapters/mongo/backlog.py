"""Notification messages as relay and sweep use them: what still has to ring, and what has rung in vain."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from shared.adapters.mongo.client import Database, Document, apply, translated
from shared.domain.moves import INCOMPLETE, LIVE, Move

_RINGABLE = {"category": 1, "scheduledAt": 1, "nextAttemptAt": 1}
_OPEN = {"$in": [None, "pending"]}


class Backlog:
    """Reads that find work by its time, and the writes that note it has been put on the broker."""

    def __init__(self, database: Database) -> None:
        self._messages = database["notification_messages"]

    def not_enqueued(self, until: datetime, chunk: int) -> Iterator[list[Document]]:
        """Live rows due by `until` that are not on the broker, in chunks, in the order of their instants."""
        where = {**LIVE, "enqueuedAt": None, "scheduledAt": {"$lte": until}}
        return self._chunks(where, _RINGABLE, [("scheduledAt", 1)], chunk)

    def overdue(self, now: datetime, rung_before: datetime, chunk: int) -> Iterator[list[Document]]:
        """Live rows whose time has passed at `now` and that nobody has rung since `rung_before`; whole documents."""
        where = {
            **LIVE,
            "scheduledAt": {"$lte": now},
            "nextAttemptAt": {"$not": {"$gt": now}},
            "enqueuedAt": {"$not": {"$gt": rung_before}},
        }
        return self._chunks(where, None, [("scheduledAt", 1)], chunk)

    def awaiting_receipt(self, now: datetime, rung_before: datetime, chunk: int) -> Iterator[list[Document]]:
        """Sent rows whose receipt should have been asked for by `now`."""
        where = {
            "status": "sent",
            "nextAttemptAt": {"$lte": now},
            "isDeleted": False,
            "enqueuedAt": {"$not": {"$gt": rung_before}},
        }
        fields = {"category": 1, "sentAt": 1, "ticketId": 1, "nextAttemptAt": 1}
        return self._chunks(where, fields, [("nextAttemptAt", 1)], chunk)

    def foreign(self, chunk: int) -> Iterator[list[Document]]:
        """Rows another program has inserted without the bookkeeping, which no other read here would find."""
        for lacking in ({"isDeleted": None}, {"isDeleted": False, "localDate": None, "status": _OPEN}):
            yield from self._chunks(lacking, None, None, chunk, hint="days")

    def untimed(self, chunk: int) -> Iterator[list[Document]]:
        """Live rows whose `scheduledAt` is no instant: they would never be due."""
        where = {**LIVE, "scheduledAt": {"$not": {"$type": "date"}}}
        return self._chunks(where, {"attemptId": 1, "unresolvedAttempts": 1}, None, chunk, hint="due")

    def incomplete(self, ids: Sequence[Any]) -> list[Document]:
        """The rows among `ids` that still lack some of their bookkeeping; whole documents."""
        with translated():
            return list(self._messages.find({"_id": {"$in": list(ids)}, **INCOMPLETE}))

    def ringable(self, ids: Sequence[Any]) -> list[Document]:
        """Category and times of the live rows among `ids`."""
        with translated():
            return list(self._messages.find({"_id": {"$in": list(ids)}, **LIVE}, _RINGABLE))

    def apply(self, move: Move) -> int:
        """Make a guarded move; how many rows moved."""
        return apply(self._messages, move)

    def apply_unless_taken(self, move: Move) -> int | None:
        """Make a move of one row that changes a unique key; None if another pending row holds that key."""
        try:
            return apply(self._messages, move)
        except DuplicateKeyError:
            return None

    def insert_copy(self, row: Document) -> bool:
        """Insert a further device's row of another program's message; False if it is there already."""
        try:
            with translated():
                self._messages.insert_one(row)
        except DuplicateKeyError:
            return False
        return True

    def _chunks(
        self, where: Document, fields: Any, order: Any, size: int, hint: str | None = None
    ) -> Iterator[list[Document]]:
        chunk: list[Document] = []
        with (
            translated(),
            self._messages.find(where, fields, sort=order, batch_size=size, hint=hint) as cursor,
        ):
            for row in cursor:
                chunk.append(row)
                if len(chunk) == size:
                    yield chunk
                    chunk = []
        if chunk:
            yield chunk
