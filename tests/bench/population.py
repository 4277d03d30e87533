"""Users, reminders, tokens and messages in the numbers a benchmark needs."""

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from bson import ObjectId
from pymongo.database import Database

from creator.domain.rows import blank_state
from tests.bench.ground import Document

CATEGORIES = ("meal", "mood", "activity", "safety", "reminder")
ZONES = (
    "America/Los_Angeles",
    "America/New_York",
    "America/Sao_Paulo",
    "Africa/Lagos",
    "Europe/Berlin",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Tokyo",
    "Australia/Adelaide",
    "Pacific/Auckland",
)
_WRITTEN = datetime(2020, 1, 1, tzinfo=UTC)
_CHUNK = 10_000


def people(database: Database[Document], count: int, zones: Sequence[str] = ZONES) -> list[ObjectId]:
    """`count` users with one active device each; their ids."""
    ids = [ObjectId() for _ in range(count)]
    users = (
        {"_id": one, "timezone": zone, "locale": "en-GB", "preferences": {"enabled": True}}
        for one, zone in zip(ids, itertools.cycle(zones), strict=False)
    )
    _insert(database, "users", users)
    _insert(database, "notification_tokens", (_token(one) for one in ids))
    return ids


def reminders(database: Database[Document], owners: Sequence[ObjectId], times: Sequence[str], each: int = 1) -> None:
    """`each` daily reminders per owner, of all categories by turns, at the given local times by turns."""
    clock, kinds = itertools.cycle(times), itertools.cycle(CATEGORIES)
    documents = (
        {
            "userId": owner,
            "category": next(kinds),
            "label": f"reminder-{number}",
            "localTimes": [next(clock)],
            "title": "Time for a break",
            "body": {"default": "Your reminder of today", "de": "Deine Erinnerung für heute"},
            "data": {"screen": "today"},
            "createdAt": _WRITTEN,
            "updatedAt": _WRITTEN,
        }
        for owner in owners
        for number in range(each)
    )
    _insert(database, "reminders", documents)


def message(owner: ObjectId, category: str, due: datetime) -> Document:
    """A whole pending message for an owner's device; it stems from no reminder, so it may be due at any instant."""
    device = device_of(owner)
    return {
        "_id": ObjectId(),
        "userId": owner,
        "deviceId": device,
        "notificationTokenId": owner,
        "category": category,
        "label": "bench",
        "localDate": due.date().isoformat(),
        "localTime": due.strftime("%H:%M"),
        "timezone": "Etc/UTC",
        "scheduledAt": due,
        "title": "Time for a break",
        "body": "Your reminder of today",
        "data": {"screen": "today"},
        "createdAt": _WRITTEN,
        "plannedAt": _WRITTEN,
        **blank_state(),
    }


def device_of(owner: ObjectId) -> str:
    """The one device of an owner."""
    return f"device-{owner}"


def push_token(owner: ObjectId) -> str:
    """The push token of an owner's device."""
    return f"ExponentPushToken[{owner}]"


def _token(owner: ObjectId) -> Document:
    return {
        "_id": owner,
        "userId": owner,
        "deviceId": device_of(owner),
        "token": push_token(owner),
        "platform": "ios",
        "isActive": True,
        "failureCount": 0,
        "createdAt": _WRITTEN,
        "lastSeenAt": _WRITTEN,
    }


def _insert(database: Database[Document], collection: str, documents: Iterator[Document]) -> None:
    while chunk := list(itertools.islice(documents, _CHUNK)):
        database[collection].insert_many(chunk, ordered=False)
