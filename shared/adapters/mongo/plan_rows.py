"""Notification messages as the planner uses them: what exists, what is new."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymongo.errors import BulkWriteError, DuplicateKeyError

from shared.adapters.mongo.client import Database, Document, apply, translated, violated_index
from shared.domain.ids import id_key
from shared.domain.moves import LIVE, Move

_KNOWN = {
    "reminderId": 1,
    "deviceId": 1,
    "localDate": 1,
    "localTime": 1,
    "status": 1,
    "scheduledAt": 1,
    "notificationTokenId": 1,
    "category": 1,
    "label": 1,
}
_DUPLICATE = 11000
_PENDING_KEY = ("userId", "notificationTokenId", "category", "label", "scheduledAt")
_OCCURRENCE_KEY = ("reminderId", "deviceId", "localDate", "localTime")


@dataclass
class InsertResult:
    """What an unordered insert did. `same_instant` are the rows refused for another one at that instant.

    `errors` are real ones: (position in the batch or -1, text).
    """

    inserted: list[int] = field(default_factory=list)
    already: int = 0
    same_instant: list[Document] = field(default_factory=list)
    errors: list[tuple[int, str]] = field(default_factory=list)


class PlanRows:
    """Reads and writes of a plan on `notification_messages`."""

    def __init__(self, database: Database) -> None:
        self._messages = database["notification_messages"]

    def known(self, reminder_ids: Sequence[Any], first_date: str, last_date: str) -> list[Document]:
        """Every occurrence of these reminders on these local dates that exists, in whatever state."""
        where = {
            "reminderId": {"$in": list(reminder_ids)},
            "isDeleted": False,
            "localDate": {"$gte": first_date, "$lte": last_date},
        }
        with translated():
            found = self._messages.find(where, _KNOWN, batch_size=10_000).hint("occurrence_once")
            return [row for row in found if _is_occurrence(row)]

    def insert(self, rows: Sequence[Document]) -> InsertResult:
        """Insert what nobody else has inserted meanwhile.

        A duplicate on the occurrence key means that a concurrent plan was first; on the pending key alone, that
        another reminder or time of the same label fires at that instant. Anything else is an error and is returned.
        """
        if not rows:
            return InsertResult()
        try:
            with translated():
                self._messages.insert_many(rows, ordered=False)
        except BulkWriteError as error:
            return self._sorted_out(rows, error.details)
        return InsertResult(list(range(len(rows))))

    def _sorted_out(self, rows: Sequence[Document], details: Any) -> InsertResult:
        result = InsertResult()
        failed, doubtful = set(), []
        for entry in details["writeErrors"]:
            failed.add(entry["index"])
            if entry["code"] != _DUPLICATE:
                result.errors.append((entry["index"], f"{entry['code']}: {entry.get('errmsg', '')}"[:200]))
            elif violated_index(entry) == "reminderId":
                result.already += 1
            else:
                doubtful.append(rows[entry["index"]])
        # The server names only the first index it found violated, so the other one has to be asked for.
        planned = self._planned(doubtful)
        for row in doubtful:
            if _key(row) in planned:
                result.already += 1
            else:
                row.pop("_id", None)  # the driver's, of the failed try
                result.same_instant.append(row)
        result.errors += [(-1, f"write concern: {entry}"[:200]) for entry in details.get("writeConcernErrors", [])]
        result.inserted = [position for position in range(len(rows)) if position not in failed]
        return result

    def _planned(self, rows: Sequence[Document]) -> set[Hashable]:
        if not rows:
            return set()
        keys = [{name: row[name] for name in _OCCURRENCE_KEY} for row in rows]
        with translated():
            found = self._messages.find({"$or": keys, "isDeleted": False}, dict.fromkeys(_OCCURRENCE_KEY, 1))
            return {_key(row) for row in found}

    def standing_in_the_way(self, rows: Sequence[Document]) -> list[Document]:
        """The pending rows (with `reminderId`) that hold the user, token, category, label and instant of `rows`."""
        keys = [{name: row[name] for name in _PENDING_KEY} for row in rows]
        with translated():
            return list(self._messages.find({"$or": keys, **LIVE}, {"reminderId": 1}))

    def apply(self, move: Move) -> int | None:
        """Make a guarded move; None if another pending row already fires at that instant."""
        try:
            return apply(self._messages, move)
        except DuplicateKeyError:
            return None


def _is_occurrence(row: Document) -> bool:
    """Whether it has a whole key; rows of other programs may lack a device, or hold anything for a date."""
    return row.get("deviceId") is not None and type(row.get("localDate")) is type(row.get("localTime")) is str


def _key(row: Document) -> Hashable:
    return tuple(id_key(row[name]) for name in _OCCURRENCE_KEY)
