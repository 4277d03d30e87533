"""The permit: one document that paces all consumers together and counts their open connections.

A generic cell rate algorithm without burst, on the server's clock, in one `findOneAndUpdate` per batch: any burst on
top of the full rate would exceed it in some rolling second. Between the permit and the request lie the claim and what
goes with it, which takes longer or shorter; so directly before the request its turn is entered in a log of the last
second, and it waits if that second is full.
"""

from dataclasses import dataclass
from typing import Any

from pymongo import ReturnDocument, WriteConcern

from shared.adapters.mongo.client import Database, Document, translated

# Slightly below the limit, since the network moves requests closer together than they were sent.
PACE = 0.95
# A rolling second, and what the network may take from the distance of two requests.
_WINDOW_MS = 1_020.0
# Nobody's limit: not worth a look at the log before every request.
_NO_LIMIT = 10_000.0
_ID, _LOG_ID = "expo", "expo_turns"
_NOW: dict[str, Any] = {"$toDouble": {"$toLong": "$$NOW"}}


@dataclass(frozen=True)
class Permit:
    """A connection slot, to be used after `wait_seconds`."""

    slot: str
    wait_seconds: float


class Limiter:
    """At most `rate` recipients per second and `connections` requests at once, over every process."""

    def __init__(self, database: Database, rate: float, connections: int, hold_seconds: float) -> None:
        # Losing the last permits in a fail-over costs nothing worth a journal write on every batch.
        self._permits = database["expo_permits"].with_options(write_concern=WriteConcern(1))
        self._rate = rate
        self._ms_each = 1000.0 / (rate * PACE)
        self._connections = connections
        self._hold_ms = hold_seconds * 1000.0

    def acquire(self, slot: str, recipients: int) -> Permit | None:
        """Reserve room for `recipients` and a connection under the new name `slot`; None while all are taken.

        A slot nobody gives back (its process was killed) frees itself after `hold_seconds`.
        """
        arrival = {"$ifNull": ["$arrival", 0.0]}
        open_slots = {
            "$filter": {"input": {"$ifNull": ["$slots", []]}, "as": "s", "cond": {"$gt": ["$$s.until", _NOW]}}
        }
        mine = {"name": slot, "until": {"$add": ["$_start", self._hold_ms]}}
        taken = {
            "arrival": {"$cond": ["$_granted", {"$add": ["$_start", recipients * self._ms_each]}, arrival]},
            "slots": {"$cond": ["$_granted", {"$concatArrays": ["$slots", [mine]]}, "$slots"]},
        }
        state = self._change(
            _ID,
            {"slots": open_slots, "_start": {"$max": [arrival, _NOW]}, "_now": _NOW},
            {"_granted": {"$lt": [{"$size": "$slots"}, self._connections]}},
            taken,
        )
        if not state["_granted"]:
            return None
        return Permit(slot, max(0.0, state["_start"] - state["_now"]) / 1000.0)

    def take_turn(self, recipients: int) -> float:
        """Enter a request into the log of the last second: 0 if it may be made now, else seconds to wait first."""
        if self._rate > _NO_LIMIT:
            return 0.0
        recent = {
            "$filter": {
                "input": {"$ifNull": ["$turns", []]},
                "as": "t",
                "cond": {"$gt": ["$$t.at", {"$subtract": [_NOW, _WINDOW_MS]}]},
            }
        }
        has_room = {"$lte": [{"$add": [{"$sum": "$turns.n"}, recipients]}, max(self._rate, recipients)]}
        mine = [{"at": _NOW, "n": recipients}]
        state = self._change(
            _LOG_ID,
            {"turns": recent, "_now": _NOW},
            {"_granted": has_room},
            {"turns": {"$cond": ["$_granted", {"$concatArrays": ["$turns", mine]}, "$turns"]}},
        )
        if state["_granted"]:
            return 0.0
        oldest: float = state["turns"][0]["at"]
        wait_ms: float = max(1.0, oldest + _WINDOW_MS - state["_now"])
        return wait_ms / 1000.0

    def _change(self, document_id: str, *stages: Document) -> Document:
        with translated():
            state = self._permits.find_one_and_update(
                {"_id": document_id},
                [{"$set": stage} for stage in stages],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        assert state is not None, "an upsert returns what it wrote"
        return state

    def release(self, permit: Permit) -> None:
        """Give the connection back."""
        with translated():
            self._permits.update_one({"_id": _ID}, {"$pull": {"slots": {"name": permit.slot}}})

    def pause(self, seconds: float) -> None:
        """Expo says that it is too much: nobody begins anything for a while."""
        until = {"$max": [{"$ifNull": ["$arrival", 0.0]}, {"$add": [_NOW, seconds * 1000.0]}]}
        with translated():
            self._permits.update_one({"_id": _ID}, [{"$set": {"arrival": until}}], upsert=True)
