"""The change stream that wakes the relay, and the relay's own state: its lease and its place in the stream."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import ReturnDocument
from pymongo.change_stream import CollectionChangeStream
from pymongo.errors import OperationFailure

from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.client import Database, Document, translated

# Not authenticated, not authorised: nothing is wrong with the place then. Whatever else the server says of a stored
# place (history lost, not resumable, garbage in one of many forms), it is worthless, and a scan makes up for it.
_NOT_THE_PLACE = frozenset({13, 18})

_RELEVANT: list[Document] = [
    {
        "$match": {
            "$or": [
                {"operationType": {"$in": ["insert", "replace"]}},
                {"operationType": "update", "updateDescription.updatedFields.scheduledAt": {"$exists": True}},
                {"operationType": "update", "updateDescription.updatedFields.category": {"$exists": True}},
            ]
        }
    },
    {
        "$project": {
            "operationType": 1,
            "documentKey": 1,
            "fullDocument": dict.fromkeys(
                ("category", "scheduledAt", "status", "isDeleted", "enqueuedAt", "deviceId", "localDate"), 1
            ),
        }
    },
]


class ChangeFeed:
    """One open stream over inserted and moved messages."""

    def __init__(self, stream: CollectionChangeStream[Document]) -> None:
        self._stream = stream

    def next(self) -> Document | None:
        """The next change, or None when there is none within the stream's waiting time."""
        with translated():
            return self._stream.try_next()

    @property
    def place(self) -> Any:
        """Where to resume after everything read so far."""
        return self._stream.resume_token


class RelayState:
    """The relay's lease and place, in `relay_state`."""

    def __init__(self, database: Database) -> None:
        self._messages = database["notification_messages"]
        self._state = database["relay_state"]

    @contextmanager
    def feed(self, wait_ms: int) -> Iterator[ChangeFeed]:
        """A stream from the stored place, or from now if there is none or the server refuses it."""
        with translated():
            stored = self._state.find_one({"_id": "place"})
        place = stored and stored.get("token")
        try:
            stream = self._open(place, wait_ms)
        except OperationFailure as error:
            if place is None or error.code in _NOT_THE_PLACE:
                raise
            self.forget_place()
            stream = self._open(None, wait_ms)
        try:
            yield ChangeFeed(stream)
        except OperationFailure as error:
            if error.code in _NOT_THE_PLACE:
                raise
            self.forget_place()
            raise DatabaseUnavailable(f"the change stream broke: {error}"[:300]) from error
        finally:
            stream.close()

    def _open(self, place: Any, wait_ms: int) -> CollectionChangeStream[Document]:
        with translated():
            return self._messages.watch(_RELEVANT, resume_after=place, max_await_time_ms=wait_ms, batch_size=5_000)

    def keep_place(self, place: Any) -> None:
        """Remember the place; call only once the broker has everything read up to it."""
        with translated():
            self._state.update_one({"_id": "place"}, {"$set": {"token": place}}, upsert=True)

    def forget_place(self) -> None:
        """Drop the place: the next feed begins at now, and the scan before it finds the rest."""
        with translated():
            self._state.delete_one({"_id": "place"})

    def hold_lease(self, owner: str, lease_ms: int) -> bool:
        """Take or renew the relay's lease; whether `owner` has it now."""
        mine = {"$or": [{"$eq": ["$owner", owner]}, {"$lt": ["$expiresAt", "$$NOW"]}]}
        lease = {"owner": owner, "expiresAt": {"$add": ["$$NOW", lease_ms]}}
        change = {name: {"$cond": [mine, value, f"${name}"]} for name, value in lease.items()}
        with translated():
            held = self._state.find_one_and_update(
                {"_id": "lease"}, [{"$set": change}], upsert=True, return_document=ReturnDocument.AFTER
            )
        return held is not None and held["owner"] == owner

    def drop_lease(self, owner: str) -> None:
        """Give the lease back, so that another relay need not wait for its end."""
        with translated():
            self._state.delete_one({"_id": "lease", "owner": owner})
