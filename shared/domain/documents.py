"""Users, reminders and tokens as Punktlig understands them, parsed from documents that others wrote.

Everything here is validated when read: a document that cannot be understood raises `BadDocument` with the reason
under which it is counted, and never stops a run.
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, tzinfo
from typing import Any

from shared.domain.allowed_hours import AllowedHours, parse_allowed_hours
from shared.domain.localtime import BadLocalTime, local_date_at, parse_local_time
from shared.domain.recurrence import BadRecurrence, Recurrence, parse_recurrence
from shared.domain.states import SkipReason
from shared.domain.zones import BadTimezone, parse_zone

EPOCH = date(1970, 1, 1)
EVERY_DAY = parse_recurrence(None, anchor=EPOCH)
_DAILY = (None, "", "FREQ=DAILY")
# Beyond them local dates may leave Python's calendar.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
_BRACKETED_TOKEN = re.compile(r"(?:ExponentPushToken|ExpoPushToken)\[[^\[\]\s]{1,200}\]")


class BadDocument(ValueError):
    """A document that cannot be acted on; `reason` is how it is counted, the text what is wrong with it."""

    def __init__(self, reason: SkipReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True)
class User:
    """A user's wishes. `allowed_hours` None means at any hour."""

    id: Any
    timezone: str
    zone: tzinfo
    locale: str | None
    is_active: bool
    enabled: bool
    refused_categories: frozenset[str]
    allowed_hours: AllowedHours | None

    def wants(self, category: str) -> bool:
        """Whether reminders of this category are wanted at all."""
        return self.enabled and category not in self.refused_categories


@dataclass(frozen=True)
class Reminder:
    """What to say and when. `times` are (wall time, its text as key); `bad_times` says what was wrong with others."""

    id: Any
    user_id: Any
    category: str
    label: str
    times: tuple[tuple[time, str], ...]
    recurrence: Recurrence
    title: Any
    body: Any
    data: Any
    is_live: bool
    not_before: datetime | None
    bad_times: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Token:
    """One device's push address."""

    id: Any
    user_id: Any
    device_id: Any
    token: str
    project: str | None
    is_active: bool
    created_at: datetime | None


def parse_user(document: Mapping[str, Any]) -> User:
    """The user in `document`.

    Raises:
        BadDocument: `bad_timezone`, or `bad_document` for preferences that cannot be read.

    """
    try:
        zone = parse_zone(document.get("timezone"))
    except BadTimezone as error:
        raise BadDocument(SkipReason.BAD_TIMEZONE, str(error)) from error
    preferences = _mapping(document, "preferences")
    categories = _mapping(preferences, "categories")
    try:
        hours = parse_allowed_hours(preferences.get("allowedHours"))
    except ValueError as error:
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"preferences.allowedHours: {error}") from error
    locale = document.get("locale")
    return User(
        id=document["_id"],
        timezone=getattr(zone, "key", None) or str(document["timezone"]).strip(),
        zone=zone,
        locale=locale if isinstance(locale, str) else None,
        is_active=_flag(document, "isActive", default=True),
        enabled=_flag(preferences, "enabled", default=True),
        refused_categories=frozenset(name for name in categories if not _flag(categories, name, default=True)),
        allowed_hours=hours,
    )


def parse_reminder(document: Mapping[str, Any], zone: tzinfo) -> Reminder:
    """The reminder in `document`, for a user whose zone is `zone`.

    Raises:
        BadDocument: `bad_recurrence`, `bad_local_time` if not one of its times is good, else `bad_document`.

    """
    times, bad = _times(document.get("localTimes"))
    if not times:
        raise BadDocument(SkipReason.BAD_LOCAL_TIME, "; ".join(bad) or "localTimes: empty")
    created = _instant(document, "createdAt")
    updated = _instant(document, "updatedAt")
    bounds = [instant for instant in (created, updated) if instant is not None]
    return Reminder(
        id=document["_id"],
        user_id=document.get("userId"),
        category=_text(document, "category"),
        label=_text(document, "label"),
        times=times,
        recurrence=_recurrence(document, created, zone),
        title=document.get("title"),
        body=document.get("body"),
        data=document.get("data"),
        is_live=_flag(document, "isActive", default=True) and not _flag(document, "isDeleted", default=False),
        not_before=max(bounds, default=None),
        bad_times=bad,
    )


def parse_token(document: Mapping[str, Any]) -> Token:
    """The token in `document`.

    Raises:
        BadDocument: `bad_token` if Expo would not know its form.

    """
    token = document.get("token")
    if not is_expo_token(token):
        raise BadDocument(SkipReason.BAD_TOKEN, "token: not an Expo push token")
    device = document.get("deviceId")
    if device is None or device == "":
        raise BadDocument(SkipReason.BAD_DOCUMENT, "deviceId: missing")
    project = document.get("project")
    return Token(
        id=document["_id"],
        user_id=document.get("userId"),
        device_id=device,
        token=str(token),
        project=project if isinstance(project, str) else None,
        is_active=_flag(document, "isActive", default=False),
        created_at=_instant(document, "createdAt"),
    )


def is_expo_token(token: object) -> bool:
    """Whether `token` has a form that Expo accepts: two bracketed spellings, or a bare UUID."""
    if not isinstance(token, str):
        return False
    if _BRACKETED_TOKEN.fullmatch(token):
        return True
    try:
        return str(uuid.UUID(token)) == token.lower()
    except ValueError:
        return False


def _times(value: object) -> tuple[tuple[tuple[time, str], ...], tuple[str, ...]]:
    if not isinstance(value, list | tuple):
        return (), (f"localTimes: a {type(value).__name__}, not a list",)
    good: dict[str, time] = {}
    bad: list[str] = []
    for item in value:
        try:
            wall = parse_local_time(item)
            good.setdefault(item, wall)
        except BadLocalTime as error:
            bad.append(str(error))
    return tuple((wall, key) for key, wall in good.items()), tuple(bad)


def _recurrence(document: Mapping[str, Any], created: datetime | None, zone: tzinfo) -> Recurrence:
    starts_on, ends_on = _date(document, "startsOn"), _date(document, "endsOn")
    if starts_on is ends_on is None and document.get("recurrence") in _DAILY:
        return EVERY_DAY  # nearly every reminder; its anchor could only exclude dates before it was written
    anchor = starts_on or (local_date_at(created, zone) if created else EPOCH)
    rule = document.get("recurrence")
    if rule is not None and not isinstance(rule, str):
        raise BadDocument(SkipReason.BAD_RECURRENCE, f"recurrence: a {type(rule).__name__}, not text")
    try:
        return parse_recurrence(rule, anchor=anchor, starts_on=starts_on, ends_on=ends_on)
    except BadRecurrence as error:
        raise BadDocument(SkipReason.BAD_RECURRENCE, str(error)) from error


def _mapping(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: a {type(value).__name__}, not an object")
    return value


def _flag(document: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = document.get(name)
    if value is None:
        return default
    if value is not True and value is not False:
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: a {type(value).__name__}, not true or false")
    return bool(value)


def _text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: missing or not text")
    return value


def _instant(document: Mapping[str, Any], name: str) -> datetime | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: a {type(value).__name__}, not an instant")
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: in the year {value.year}")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _date(document: Mapping[str, Any], name: str) -> date | None:
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise BadDocument(SkipReason.BAD_DOCUMENT, f"{name}: not a date like 2026-03-29")
