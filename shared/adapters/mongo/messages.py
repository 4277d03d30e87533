"""Notification messages as the send stage and the receipts stage use them."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pymongo
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.client import WRITE_TIMEOUT_SECONDS, Database, Document, apply, translated
from shared.domain import moves
from shared.domain.moves import LIVE, Move

_GLANCE = dict.fromkeys(
    ("scheduledAt", "nextAttemptAt", "enqueuedAt", "claim.expiresAt", "unresolvedAttempts", "attemptId"), 1
)
# What neither judging nor sending looks at: decoding dates is a good part of reading a row.
_NOT_TO_SEND = dict.fromkeys(("createdAt", "plannedAt", "enqueuedAt", "resolvedAt", "sentAt", "settledBy"), 0)


@dataclass(frozen=True)
class Claim:
    """Rows held by one claim. `taken_at` is the server's clock at that moment."""

    owner: str
    rows: list[Document]
    taken_at: datetime


@dataclass(frozen=True)
class Settlement:
    """A terminal move of sent or attempted rows, whose effect on tokens must happen in the same transaction.

    `settled_by` is the mark the move leaves on the rows it really changed.
    """

    move: Move
    settled_by: str


# What the rows that moved mean for their tokens.
TokenEffects = Callable[[Sequence[Document]], Iterable[Move]]


class MessageStore:
    """Reads and guarded writes on `notification_messages`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._messages = database["notification_messages"]
        self._tokens = database["notification_tokens"]

    def glance(self, ids: Sequence[Any]) -> list[Document]:
        """Times, lease and unresolved attempts of the pending rows among `ids`."""
        with translated():
            return list(self._messages.find({"_id": {"$in": list(ids)}, **LIVE}, _GLANCE))

    def count_live(self, ids: Sequence[Any]) -> int:
        """How many of the rows still wait."""
        with translated():
            return self._messages.count_documents({"_id": {"$in": list(ids)}, **LIVE})

    def apply(self, move: Move) -> int:
        """Make a guarded move; how many rows it moved."""
        return apply(self._messages, move)

    def apply_unless_taken(self, move: Move) -> int | None:
        """Make a move of one row that changes a unique key; None if another pending row holds that key."""
        try:
            return apply(self._messages, move)
        except DuplicateKeyError:
            return None

    def apply_each(self, each: Sequence[Move]) -> int:
        """Make many one-row moves in one round trip; how many rows moved."""
        if not each:
            return 0
        operations = [pymongo.UpdateOne(move.where, move.update) for move in each]
        with translated(), pymongo.timeout(WRITE_TIMEOUT_SECONDS):
            return self._messages.bulk_write(operations, ordered=False).modified_count

    def claim(self, ids: Sequence[Any], lease_ms: int) -> Claim:
        """Take the due, free rows among `ids` for `lease_ms`.

        Two round trips. After an error of the first, whatever bears the new owner is held all the same.

        Raises:
            DatabaseUnavailable: nothing is known to be held; a lease that was taken runs out.

        """
        owner = uuid.uuid4().hex
        failure: DatabaseUnavailable | None = None
        try:
            if self.apply(moves.claim(ids, owner, lease_ms)) == 0:
                return Claim(owner, [], datetime.max.replace(tzinfo=UTC))
        except DatabaseUnavailable as error:
            failure = error
        with translated():
            rows = list(self._messages.find(moves.owned(ids, owner), _NOT_TO_SEND))
        if failure is not None and not rows:
            raise failure
        if not rows:
            return Claim(owner, [], datetime.max.replace(tzinfo=UTC))
        taken_at: datetime = rows[0]["claim"]["expiresAt"] - timedelta(milliseconds=lease_ms)
        return Claim(owner, rows, taken_at)

    def mark(self, move: Move, ids: Sequence[Any], attempt: str) -> set[Any]:
        """Announce a request for `ids`; which of them it may carry. A second round trip only if some were refused.

        Raises:
            DatabaseUnavailable: no request may be made.

        """
        if self.apply(move) == len(ids):
            return set(ids)
        with translated():
            return {row["_id"] for row in self._messages.find(moves.attempted(ids, attempt), {"_id": 1})}

    def settle(self, settlements: Sequence[Settlement], effects: TokenEffects) -> list[Document]:
        """End rows and adjust their tokens in one transaction; the rows that this transaction moved.

        `effects` is asked for the rows that really moved, so that a failure is counted exactly once however often
        this is repeated.
        """
        projection = {
            "notificationTokenId": 1,
            "attemptStartedAt": 1,
            "status": 1,
            "reason": 1,
            "category": 1,
            "sentAt": 1,
        }

        def body(session: Any) -> list[Document]:
            moved: list[Document] = []
            for settlement in settlements:
                if self._messages.update_many(
                    settlement.move.where, settlement.move.update, session=session
                ).modified_count:
                    mine = {"_id": settlement.move.where["_id"], "settledBy": settlement.settled_by}
                    moved += self._messages.find(mine, projection, session=session)
            changes = [pymongo.UpdateMany(move.where, move.update) for move in effects(moved)]
            if changes:
                self._tokens.bulk_write(changes, ordered=False, session=session)
            return moved

        with translated(), self._database.client.start_session() as session:
            return session.with_transaction(
                body, read_concern=ReadConcern("snapshot"), write_concern=WriteConcern("majority", j=True)
            )

    def sent(self, ids: Sequence[Any]) -> list[Document]:
        """The rows among `ids` that await a receipt."""
        with translated():
            return list(self._messages.find({"_id": {"$in": list(ids)}, "status": "sent", "isDeleted": False}))
