"""What to do with one due message, given everything known at this moment. Pure: consumer and sweep both call it.

The order of the questions is the order of a user's interest: was it perhaps sent already, does the message still
exist, does the user still want it, is it the right minute where the user is now, can the phone be reached.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from shared.domain.content import Content, render
from shared.domain.documents import Reminder, Token, User
from shared.domain.ids import id_key
from shared.domain.localtime import BadLocalTime, local_clock_at, parse_local_time, resolve
from shared.domain.moves import Placement
from shared.domain.policy import CategoryPolicy
from shared.domain.states import Reason

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Send:
    """Send it, to this token, with these words. `token.id` may differ from the row's: the device has a new token."""

    token: Token
    content: Content


@dataclass(frozen=True)
class Miss:
    """Decided not to send, for `reason`."""

    reason: Reason


@dataclass(frozen=True)
class Reject:
    """Can never be sent, for `reason`."""

    reason: Reason


@dataclass(frozen=True)
class GiveUp:
    """Perhaps sent already, and not to be sent again."""


@dataclass(frozen=True)
class Postpone:
    """Its instant is elsewhere now: move it in place."""

    placement: Placement


@dataclass(frozen=True)
class Hold:
    """Nothing to do with it yet: due again at `until`."""

    until: datetime


Decision = Send | Miss | Reject | GiveUp | Postpone | Hold


@dataclass(frozen=True)
class Circumstances:
    """What was read about a row. None means: does not exist (any more), or could not be understood.

    `device_token` is the active token of the row's device, whoever owns it.
    """

    user: User | None
    reminder: Reminder | None
    device_token: Token | None


@dataclass(frozen=True)
class Rules:
    """The category's policy, the ceiling on definite refusals, and how soon after an attempt a re-send may follow."""

    policy: CategoryPolicy
    max_attempts: int
    resend_pause: timedelta


def decide(row: Row, known: Circumstances, rules: Rules, now: datetime) -> Decision:
    """The one decision about a pending row at `now` (aware UTC, the database's clock)."""
    if not is_well_formed(row):
        return unsendable(row)
    verdict = _judge(row, known, rules, now)
    unresolved = unresolved_attempts(row)
    if not unresolved:
        return verdict
    # Perhaps it is on the phone already. It can no longer be called missed, moved or sent elsewhere.
    same_target = isinstance(verdict, Send) and verdict.token.id == row.get("notificationTokenId")
    if same_target and unresolved <= rules.policy.max_unresolved:
        return _after_pause(row, verdict, rules, now)
    if isinstance(verdict, Hold):
        return verdict
    return GiveUp()


def _after_pause(row: Row, verdict: Decision, rules: Rules, now: datetime) -> Decision:
    """An attempt that was abandoned (its worker was killed) is given time to be answered late."""
    started = row.get("attemptStartedAt")
    if not row.get("attemptId") or not isinstance(started, datetime):
        return verdict
    pause_over = started + rules.resend_pause
    return Hold(pause_over) if pause_over > now else verdict


def unsendable(row: Row) -> Decision:
    """The end of a row that nobody can send: of another program, or of a category that is no more."""
    return GiveUp() if unresolved_attempts(row) else Reject(Reason.INVALID_PAYLOAD)


def is_well_formed(row: Row) -> bool:
    """Whether the row's own fields have the types every question below relies on."""
    instants = (row.get("scheduledAt"), row.get("nextAttemptAt") or row.get("scheduledAt"))
    texts = (row.get("category"), row.get("label"))
    return all(isinstance(one, datetime) for one in instants) and all(isinstance(one, str) for one in texts)


def _judge(row: Row, known: Circumstances, rules: Rules, now: datetime) -> Decision:
    user, policy = known.user, rules.policy
    if user is None or not user.is_active:
        return Miss(Reason.USER_INACTIVE)
    if not all(user.wants(category) for category in _categories(row, known)):
        return Miss(Reason.OPTED_OUT)
    scheduled_at = _where_it_belongs(row, known)
    if scheduled_at is None:
        return Miss(Reason.REMINDER_CANCELLED)
    token = known.device_token
    if token is None or id_key(token.user_id) != id_key(row.get("userId")):
        return Miss(Reason.NO_ACTIVE_TOKEN if token is None else Reason.SUPERSEDED)
    if scheduled_at != row["scheduledAt"] and scheduled_at > now:
        return Postpone(Placement(scheduled_at, user.timezone, token.id))
    if now > scheduled_at + policy.grace:
        return Miss(Reason.TOO_LATE)
    hours = None if policy.ignore_allowed_hours else user.allowed_hours
    if hours is not None and not hours.contains(local_clock_at(now, user.zone)):
        return Miss(Reason.OUTSIDE_ALLOWED_HOURS)
    return _readiness(row, known, rules, now)


def _categories(row: Row, known: Circumstances) -> set[str]:
    """The row's category, and its reminder's if that was changed after the row was planned."""
    return {row["category"], known.reminder.category} if known.reminder else {row["category"]}


def _readiness(row: Row, known: Circumstances, rules: Rules, now: datetime) -> Decision:
    due = due_at(row)
    if due is not None and due > now:
        return Hold(due)
    if definite_attempts(row) >= rules.max_attempts:
        return Reject(Reason.RETRIES_EXHAUSTED)
    content = _content(row, known)
    if content is None:
        return Reject(Reason.INVALID_PAYLOAD)
    assert known.device_token is not None
    return Send(known.device_token, content)


def _where_it_belongs(row: Row, known: Circumstances) -> datetime | None:
    """The instant of the row's occurrence as reminder and zone stand now; None if it no longer exists."""
    scheduled_at: datetime = row["scheduledAt"]
    if row.get("reminderId") is None:
        return scheduled_at
    reminder, user = known.reminder, known.user
    if (
        reminder is None
        or user is None
        or not reminder.is_live
        or id_key(reminder.user_id) != id_key(row.get("userId"))
    ):
        return None
    local_time, local_date = row.get("localTime"), _parse_date(row.get("localDate"))
    if local_date is None or local_time not in {key for _, key in reminder.times}:
        return None
    if not reminder.recurrence.dates(local_date, local_date):
        return None
    try:
        return resolve(local_date, parse_local_time(local_time), user.zone)
    except BadLocalTime:
        return None


def _content(row: Row, known: Circumstances) -> Content | None:
    source = known.reminder
    locale = known.user.locale if known.user else None
    if row.get("reminderId") is None or source is None:
        return render(row.get("title"), row.get("body"), row.get("data"), locale)
    return render(source.title, source.body, source.data, locale)


def _parse_date(text: object) -> date | None:
    try:
        return date.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def due_at(row: Row) -> datetime | None:
    """The planned instant, or the later one that a back-off asks for; None if the row holds no instant at all."""
    instants = (row.get("scheduledAt"), row.get("nextAttemptAt"))
    return max((one for one in instants if isinstance(one, datetime)), default=None)


def held_until(row: Row) -> datetime | None:
    """When the claim on the row ends or has ended; None if there is none, or no part of ours has made it."""
    claim = row.get("claim")
    expires_at = claim.get("expiresAt") if isinstance(claim, Mapping) else None
    return expires_at if isinstance(expires_at, datetime) else None


def unresolved_attempts(row: Row) -> int:
    """How many requests were made for the row whose outcome nobody knows, one in flight or abandoned included."""
    attempt = row.get("attemptId")
    return _count(row, "unresolvedAttempts") + (1 if isinstance(attempt, str) and attempt else 0)


def definite_attempts(row: Row) -> int:
    """How many requests have definitely not sent this row."""
    return _count(row, "attempts") - unresolved_attempts(row)


def _count(row: Row, name: str) -> int:
    value = row.get(name)  # another program may have written anything
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return math.ceil(value) if math.isfinite(value) and value > 0 else 0


def grace_end(row: Row, policy: CategoryPolicy) -> datetime:
    """When the row becomes too late; also Expo's `expiration`, so that a push posted late is discarded."""
    scheduled_at: datetime = row["scheduledAt"]
    return scheduled_at.astimezone(UTC) + policy.grace
