"""The indexes the promises rest on: declared here, created by an administrator, checked by every service."""

from dataclasses import dataclass, field
from typing import Any

from pymongo import IndexModel
from pymongo.errors import OperationFailure

from shared.adapters.errors import WrongSchema
from shared.adapters.mongo.client import Database, Document, translated
from shared.domain.states import TERMINAL, Status

_PENDING = {"status": Status.PENDING.value, "isDeleted": False}
_PLAIN = {"v", "key", "name", "ns", "unique", "partialFilterExpression", "background"}


@dataclass(frozen=True)
class Index:
    """One index: where, on what, and for which documents."""

    collection: str
    name: str
    keys: tuple[tuple[str, int], ...]
    unique: bool = False
    partial: Document = field(default_factory=dict)

    def model(self) -> IndexModel:
        """The driver's form of it."""
        options: dict[str, Any] = {"name": self.name}
        if self.unique:
            options["unique"] = True
        if self.partial:
            options["partialFilterExpression"] = self.partial
        return IndexModel(list(self.keys), **options)

    def matches(self, existing: Document) -> bool:
        """Whether an index description of the server is this index, whatever its name."""
        return (
            existing.keys() <= _PLAIN  # hidden, sparse, with a collation or a time to live, it is another index
            and list(existing["key"].items()) == list(self.keys)
            and bool(existing.get("unique")) == self.unique
            and dict(existing.get("partialFilterExpression") or {}) == self.partial
        )


def _keys(*names: str) -> tuple[tuple[str, int], ...]:
    return tuple((name, 1) for name in names)


def declared_indexes() -> tuple[Index, ...]:
    """All of them. Two uniqueness rules on messages: see `docs/architecture.md` for why one is not enough."""
    messages, tokens = "notification_messages", "notification_tokens"
    active = {"isActive": True}
    return (
        Index(
            messages,
            "pending_once",
            _keys("userId", "notificationTokenId", "category", "label", "scheduledAt"),
            unique=True,
            partial=_PENDING,
        ),
        Index(
            messages,
            "occurrence_once",
            _keys("reminderId", "deviceId", "localDate", "localTime"),
            unique=True,
            partial={"isDeleted": False, "reminderId": {"$exists": True}},
        ),
        # Relay and sweep: what is due by an instant, and when it was last rung.
        Index(messages, "due", _keys("scheduledAt", "enqueuedAt"), partial=_PENDING),
        # The sweep: receipts to ask for, oldest first.
        Index(messages, "receipts_due", _keys("nextAttemptAt"), partial={"status": Status.SENT.value}),
        # The counters' days; rows of other programs that lack `isDeleted` or `localDate` stand together at its front.
        Index(messages, "days", _keys("isDeleted", "localDate")),
        # The counters.
        Index(
            messages,
            "outcomes",
            _keys("localDate", "status", "category", "label", "reason"),
            partial={"isDeleted": False, "status": {"$in": sorted(status.value for status in TERMINAL)}},
        ),
        Index(tokens, "device_once", _keys("deviceId"), unique=True, partial=active),
        Index(tokens, "token_once", _keys("token"), unique=True, partial=active),
        Index(tokens, "by_user", _keys("userId"), partial=active),
        Index(
            "notification_counters",
            "counter_once",
            _keys("localDate", "category", "label", "status", "reason"),
            unique=True,
        ),
        # The app's own collection: only this index is ours, no document of it is ever written.
        Index("reminders", "by_user", _keys("userId")),
    )


def missing_indexes(database: Database) -> list[str]:
    """The indexes that are absent or different, as `collection.name`."""
    missing = []
    existing: dict[str, list[Document]] = {}
    for index in declared_indexes():
        if index.collection not in existing:
            with translated():
                existing[index.collection] = [dict(item) for item in database[index.collection].list_indexes()]
        if not any(index.matches(item) for item in existing[index.collection]):
            missing.append(f"{index.collection}.{index.name}")
    return missing


def check_indexes(database: Database) -> None:
    """Refuse to start without them.

    Raises:
        WrongSchema: names the first one and the command that creates it.

    """
    missing = missing_indexes(database)
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise WrongSchema(f"index {missing[0]}{more}: missing or different; run: python -m creator indexes")


def create_indexes(database: Database) -> list[str]:
    """Create what is missing and replace what stands under one of our names but differs; what was done, by name.

    Raises:
        WrongSchema: documents that break a unique index; the text says which index.

    """
    done = []
    for index in declared_indexes():
        collection = database[index.collection]
        with translated():
            existing = [dict(item) for item in collection.list_indexes()]
        if any(index.matches(item) for item in existing):
            continue
        if any(item["name"] == index.name for item in existing):
            with translated():
                collection.drop_index(index.name)
        try:
            with translated():
                collection.create_indexes([index.model()])
        except OperationFailure as error:
            raise WrongSchema(f"index {index.collection}.{index.name} cannot be created: {error}") from error
        done.append(f"{index.collection}.{index.name}")
    return done
