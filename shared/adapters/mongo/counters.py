"""Counters derived from terminal rows, sealed days, and the only purge there is."""

from collections.abc import Iterator
from dataclasses import dataclass

from shared.adapters.mongo.client import Database, Document, translated
from shared.domain.states import TERMINAL

_TERMINAL = sorted(status.value for status in TERMINAL)
_KEY = ("localDate", "category", "label", "status", "reason")


@dataclass(frozen=True)
class Span:
    """Local dates `YYYY-MM-DD`, inclusive; None is open-ended."""

    first: str | None = None
    last: str | None = None

    def condition(self) -> Document:
        """The filter for it."""
        bounds = {name: day for name, day in (("$gte", self.first), ("$lte", self.last)) if day is not None}
        return {"localDate": bounds} if bounds else {}


def _text(name: str) -> Document:
    """A key's value; a row that another program ended without it is counted as unknown, and stops nobody."""
    return {"$cond": [{"$eq": [{"$type": f"${name}"}, "string"]}, f"${name}", "unknown"]}


class CounterStore:
    """Reads terminal rows and keeps `notification_counters` equal to them."""

    def __init__(self, database: Database) -> None:
        self._messages = database["notification_messages"]
        self._counters = database["notification_counters"]

    def days_with_rows(self) -> list[str]:
        """The local dates of which rows exist."""
        days: list[str] = []
        after = ""
        with translated():
            while True:
                # A seek per day, where `distinct` would walk every row's index entry.
                where = {"isDeleted": False, "localDate": {"$gt": after}}
                row = self._messages.find_one(where, {"localDate": 1, "_id": 0}, sort=[("localDate", 1)], hint="days")
                if row is None:
                    return days
                after = row["localDate"]
                days.append(after)

    def sealed_days(self) -> set[str]:
        """The local dates that were counted for the last time."""
        with translated():
            return set(self._counters.distinct("localDate", {"final": True}))

    def count(self, day: str) -> None:
        """Make the day's counters what its rows say. Repeatable and safe beside another run: a count only grows."""
        pipeline: list[Document] = [
            {"$match": {"isDeleted": False, "localDate": day, "status": {"$in": _TERMINAL}}},
            {"$group": {"_id": {name: _text(name) for name in _KEY}, "count": {"$sum": 1}}},
            {"$replaceWith": {"$mergeObjects": ["$_id", {"count": "$count", "final": False}]}},
            {
                "$merge": {
                    "into": self._counters.name,
                    "on": list(_KEY),
                    "whenMatched": [{"$set": {"count": {"$max": ["$count", "$$new.count"]}}}],
                    "whenNotMatched": "insert",
                }
            },
        ]
        with translated():
            self._messages.aggregate(pipeline, hint="outcomes")

    def has_open_rows(self, day: str) -> bool:
        """Whether a row of the day may still change its state. Counts index entries and fetches no row."""
        live = {"isDeleted": False, "localDate": day}
        with translated():
            ended = self._messages.count_documents({**live, "status": {"$in": _TERMINAL}}, hint="outcomes")
            return self._messages.count_documents(live, hint="days") > ended

    def seal(self, day: str) -> None:
        """Mark the day's counters as final."""
        with translated():
            self._counters.update_many({"localDate": day}, {"$set": {"final": True}})

    def purge(self, day: str) -> int:
        """Delete the rows of a sealed day, soft-deleted ones too; how many."""
        with translated():
            live = self._messages.delete_many({"isDeleted": False, "localDate": day, "status": {"$in": _TERMINAL}})
            deleted = self._messages.delete_many({"isDeleted": True, "localDate": day})
        return live.deleted_count + deleted.deleted_count

    def purge_deleted_before(self, day: str) -> int:
        """Delete soft-deleted rows of days before `day`, also of days on which nothing else happened."""
        with translated():
            return self._messages.delete_many({"isDeleted": True, "localDate": {"$lt": day}}).deleted_count

    def read(self, span: Span) -> Iterator[Document]:
        """The counters of `span`, in the order of their keys."""
        fields = {**dict.fromkeys((*_KEY, "count", "final"), 1), "_id": 0}
        with translated():
            yield from self._counters.find(span.condition(), fields).sort([(name, 1) for name in _KEY])
