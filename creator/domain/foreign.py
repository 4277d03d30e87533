"""Rows that another program inserts (an alert): what it takes to make them whole. Pure."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from creator.domain.rows import Document, blank_state
from shared.domain.documents import Token, User
from shared.domain.localtime import local_clock_at, local_date_at
from shared.domain.policy import Policies
from shared.domain.states import Reason, Status

_FIRST_YEAR, _LAST_YEAR = 1970, 9998
_NEEDED: Mapping[str, type | tuple[type, ...]] = {
    "category": str,
    "label": str,
    "scheduledAt": datetime,
    "title": (str, dict),
    "body": (str, dict),
}
# The occurrence index takes a null for a value: these are absent, or they are something.
_NEVER_NULL: tuple[str, ...] = ("reminderId", "localDate", "localTime")


@dataclass(frozen=True)
class Adoption:
    """What the row itself becomes, which fields it must lose, and a copy for each further device."""

    fields: Document
    absent: list[str] = field(default_factory=list)
    copies: list[Document] = field(default_factory=list)


# The bookkeeping fields that are not instants, and what they must be to be kept.
_BOOKKEEPING: Mapping[str, type] = {
    "status": str,
    "reason": str,
    "isDeleted": bool,
    "claim": dict,
    "attempts": int,
    "attemptId": str,
    "unresolvedAttempts": int,
    "ticketId": str,
}


def is_whole(row: Mapping[str, Any]) -> bool:
    """Whether the row has the bookkeeping and the device that every part relies on."""
    present = all(row.get(name) is not None for name in ("status", "localDate", "deviceId"))
    return present and isinstance(row.get("isDeleted"), bool)


def complaint(row: Document, policies: Policies) -> str | None:
    """Why this row cannot be made whole, or None."""
    if row.get("userId") is None:
        return "userId: missing"
    for name, kind in _NEEDED.items():
        if not isinstance(row.get(name), kind):
            return f"{name}: missing or of the wrong type"
    if not _FIRST_YEAR <= row["scheduledAt"].year <= _LAST_YEAR:
        return f"scheduledAt: in the year {row['scheduledAt'].year}"
    if row["category"] not in policies:
        return f"category: {row['category'][:40]!r} is not one of the settings' CATEGORIES"
    if row.get("status") not in (None, Status.PENDING.value):
        return "status: not pending"
    return None


def adoption(row: Document, user: User | None, tokens: Sequence[Token], now: datetime) -> Adoption:
    """How to make the row whole: one row per active device of its user, or the one it names.

    A user or device that does not exist is the send stage's to judge; here it ends as missed at once, since no queue
    would ever ring a row without a device.
    """
    absent = [name for name in _NEVER_NULL if name in row and row[name] is None]
    wanted = [token for token in tokens if row.get("deviceId") in (None, token.device_id)]
    own = {**_times(row, user, now), **_missing_state(row, now)}
    if user is None or not wanted:
        reason = Reason.USER_INACTIVE if user is None else Reason.NO_ACTIVE_TOKEN
        return Adoption({**own, "status": Status.IS_MISSED.value, "reason": reason.value, "resolvedAt": now}, absent)
    first, *others = wanted
    whole = {name: value for name, value in {**row, **own}.items() if name not in absent}
    copies = [{**whole, **_address(token), "_id": _copy_id(row["_id"], token.device_id)} for token in others]
    return Adoption({**own, **_address(first)}, absent, copies)


def refusal(row: Document, now: datetime) -> Adoption:
    """How a row that cannot be made whole ends."""
    ended = {"status": Status.FAILED.value, "reason": Reason.INVALID_PAYLOAD.value, "resolvedAt": now}
    local_date = now.date().isoformat()
    known = {name: row[name] for name in ("category", "label") if isinstance(row.get(name), str)}
    names = {"category": "unknown", "label": "unknown", **known}
    return Adoption({**_missing_state(row, now), "localDate": local_date, **names, **ended})


def superseded(fields: Mapping[str, Any], now: datetime) -> Document:
    """The fields of a row whose twin is pending already: the same user, device, label and instant."""
    return {**fields, "status": Status.IS_MISSED.value, "reason": Reason.SUPERSEDED.value, "resolvedAt": now}


def _address(token: Token) -> Document:
    return {"deviceId": token.device_id, "notificationTokenId": token.id}


def _missing_state(row: Document, now: datetime) -> Document:
    """The bookkeeping it lacks, or has in a type that no part could work with."""
    state = {"createdAt": now, "plannedAt": now, "data": None, **blank_state()}
    return {name: value for name, value in state.items() if not _is_usable(name, row.get(name))}


def _is_usable(name: str, value: Any) -> bool:
    if name == "data":
        return isinstance(value, dict)
    if name.endswith("At"):
        return isinstance(value, datetime)
    return isinstance(value, _BOOKKEEPING[name])


def _times(row: Document, user: User | None, now: datetime) -> Document:
    # A day that is long over may have been counted for the last time: what comes late belongs to today.
    zone = user.zone if user else UTC
    instant = max(row["scheduledAt"], now)
    times = {
        "localDate": local_date_at(instant, zone).isoformat(),
        "localTime": local_clock_at(row["scheduledAt"], zone).strftime("%H:%M"),
        "timezone": user.timezone if user else "UTC",
    }
    kept = {name: row[name] for name in times if isinstance(row.get(name), str)}
    if "localDate" in kept and not _is_near(kept["localDate"], times["localDate"]):
        del kept["localDate"]  # of a day that may have been counted for the last time
    return {name: value for name, value in times.items() if name not in kept}


def _is_near(given: str, own: str) -> bool:
    try:
        return abs(date.fromisoformat(given) - date.fromisoformat(own)) <= timedelta(days=1)
    except ValueError:
        return False


def _copy_id(row_id: Any, device_id: Any) -> str:
    """The same id for the same device however often this is repeated, so that no device gets two."""
    return hashlib.sha256(f"{row_id!r}|{device_id!r}".encode()).hexdigest()[:32]
