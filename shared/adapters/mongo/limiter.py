"""The permit: one document that paces all consumers together and counts their open connections.

A generic cell rate algorithm without burst, on the server's clock, in one `findOneAndUpdate` per batch: any burst on
top of the full rate would exceed it in some rolling second.
"""

from dataclasses import dataclass
from typing import Any

from pymongo import ReturnDocument, WriteConcern

from shared.adapters.mongo.client import Database, translated

# Slightly below the limit, since the network moves requests closer together than they were sent.
PACE = 0.95
_ID = "expo"
_NOW: dict[str, Any] = {"$toDouble": {"$toLong": "$$NOW"}}


@dataclass(frozen=True)
class Permit:
    """A connection slot, to be used after `wait_seconds`, and the share of the rate it takes up.

    `is_first`: nothing was sent for a while before it.
    """

    slot: str
    wait_seconds: float
    share_seconds: float
    is_first: bool


class Limiter:
    """At most `rate` recipients per second and `connections` requests at once, over every process."""

    def __init__(self, database: Database, rate: float, connections: int, hold_seconds: float) -> None:
        # Losing the last permits in a fail-over costs nothing worth a journal write on every batch.
        self._permits = database["expo_permits"].with_options(write_concern=WriteConcern(1))
        self._ms_each = 1000.0 / (rate * PACE)
        self._connections = connections
        self._hold_ms = hold_seconds * 1000.0

    def acquire(self, slot: str, recipients: int) -> Permit | None:
        """Reserve room for `recipients` and a connection under the new name `slot`; None while all are taken.

        A slot nobody gives back (its process was killed) frees itself after `hold_seconds`.
        """
        open_slots = {
            "$filter": {"input": {"$ifNull": ["$slots", []]}, "as": "s", "cond": {"$gt": ["$$s.until", _NOW]}}
        }
        start = {"$max": [{"$ifNull": ["$arrival", 0.0]}, _NOW]}
        is_first = {"$lt": [{"$ifNull": ["$arrival", 0.0]}, {"$subtract": [_NOW, 1000.0]}]}
        granted = {"$lt": [{"$size": "$slots"}, self._connections]}
        mine = {"name": slot, "until": {"$add": ["$_start", self._hold_ms]}}
        with translated():
            state = self._permits.find_one_and_update(
                {"_id": _ID},
                [
                    {"$set": {"slots": open_slots, "_start": start, "_now": _NOW, "_first": is_first}},
                    {"$set": {"_granted": granted}},
                    {
                        "$set": {
                            "arrival": {
                                "$cond": [
                                    "$_granted",
                                    {"$add": ["$_start", recipients * self._ms_each]},
                                    {"$ifNull": ["$arrival", 0.0]},
                                ]
                            },
                            "slots": {"$cond": ["$_granted", {"$concatArrays": ["$slots", [mine]]}, "$slots"]},
                        }
                    },
                ],
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
        assert state is not None, "an upsert returns what it wrote"
        if not state["_granted"]:
            return None
        return Permit(
            slot,
            max(0.0, state["_start"] - state["_now"]) / 1000.0,
            recipients * self._ms_each / 1000.0,
            state["_first"],
        )

    def release(self, permit: Permit) -> None:
        """Give the connection back."""
        with translated():
            self._permits.update_one({"_id": _ID}, {"$pull": {"slots": {"name": permit.slot}}})

    def pause(self, seconds: float) -> None:
        """Expo says that it is too much: nobody begins anything for a while."""
        until = {"$max": [{"$ifNull": ["$arrival", 0.0]}, {"$add": [_NOW, seconds * 1000.0]}]}
        with translated():
            self._permits.update_one({"_id": _ID}, [{"$set": {"arrival": until}}], upsert=True)
