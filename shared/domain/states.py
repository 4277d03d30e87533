"""The states of a notification message, why it ended, and the moves between states.

`docs/states.md` draws this module; a test keeps the two equal.
"""

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """Where a notification message stands. `success`, `failed` and `is_missed` never change again."""

    PENDING = "pending"
    SENT = "sent"
    SUCCESS = "success"
    FAILED = "failed"
    IS_MISSED = "is_missed"


TERMINAL = frozenset({Status.SUCCESS, Status.FAILED, Status.IS_MISSED})


class Reason(StrEnum):
    """Why a message ended as it did: the closed list that analysts and operators read."""

    OPTED_OUT = "opted_out"
    USER_INACTIVE = "user_inactive"
    REMINDER_CANCELLED = "reminder_cancelled"
    OUTSIDE_ALLOWED_HOURS = "outside_allowed_hours"
    TOO_LATE = "too_late"
    NO_ACTIVE_TOKEN = "no_active_token"  # noqa: S105 - a reason, not a secret
    SUPERSEDED = "superseded"

    DEVICE_NOT_REGISTERED = "device_not_registered"
    MESSAGE_TOO_BIG = "message_too_big"
    INVALID_PAYLOAD = "invalid_payload"
    RATE_EXCEEDED = "rate_exceeded"
    CREDENTIALS = "credentials"
    PROVIDER_ERROR = "provider_error"
    RETRIES_EXHAUSTED = "retries_exhausted"
    OUTCOME_UNKNOWN = "outcome_unknown"
    UNKNOWN_ERROR = "unknown_error"

    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"


REASONS: dict[Status, frozenset[Reason]] = {
    Status.IS_MISSED: frozenset(
        {
            Reason.OPTED_OUT,
            Reason.USER_INACTIVE,
            Reason.REMINDER_CANCELLED,
            Reason.OUTSIDE_ALLOWED_HOURS,
            Reason.TOO_LATE,
            Reason.NO_ACTIVE_TOKEN,
            Reason.SUPERSEDED,
        }
    ),
    Status.FAILED: frozenset(
        {
            Reason.DEVICE_NOT_REGISTERED,
            Reason.MESSAGE_TOO_BIG,
            Reason.INVALID_PAYLOAD,
            Reason.RATE_EXCEEDED,
            Reason.CREDENTIALS,
            Reason.PROVIDER_ERROR,
            Reason.RETRIES_EXHAUSTED,
            Reason.OUTCOME_UNKNOWN,
            Reason.UNKNOWN_ERROR,
        }
    ),
    Status.SUCCESS: frozenset({Reason.CONFIRMED, Reason.UNCONFIRMED}),
}

# Failures that say something about the device itself. Everything else is the provider's, the project's
# or our own doing and never counts against a token.
DEVICE_FAILURES = frozenset({Reason.UNKNOWN_ERROR, Reason.RATE_EXCEEDED})


class DeletedReason(StrEnum):
    """Why a pending row was soft-deleted: its occurrence no longer exists."""

    REMINDER_CHANGED = "reminder_changed"
    USER_MOVED = "user_moved"
    PREFERENCE_CHANGED = "preference_changed"


class SkipReason(StrEnum):
    """Why the planner planned nothing for a user, reminder, time, token or occurrence."""

    BAD_TIMEZONE = "bad_timezone"
    BAD_LOCAL_TIME = "bad_local_time"
    BAD_RECURRENCE = "bad_recurrence"
    UNKNOWN_CATEGORY = "unknown_category"
    BAD_TOKEN = "bad_token"  # noqa: S105 - a reason, not a secret
    BAD_DOCUMENT = "bad_document"
    OPTED_OUT = "opted_out"
    USER_INACTIVE = "user_inactive"
    OUTSIDE_ALLOWED_HOURS = "outside_allowed_hours"
    NO_ACTIVE_TOKEN = "no_active_token"  # noqa: S105 - a reason, not a secret
    SAME_INSTANT = "same_instant"


class Transition(NamedTuple):
    """One arrow of the state chart; `move` names its constructor in `shared.domain.moves`."""

    move: str
    source: Status
    target: Status


TRANSITIONS: frozenset[Transition] = frozenset(
    {
        Transition("claim", Status.PENDING, Status.PENDING),
        Transition("mark", Status.PENDING, Status.PENDING),
        Transition("release", Status.PENDING, Status.PENDING),
        Transition("record_refused", Status.PENDING, Status.PENDING),
        Transition("record_unmade", Status.PENDING, Status.PENDING),
        Transition("reopen", Status.PENDING, Status.PENDING),
        Transition("record_unknown", Status.PENDING, Status.PENDING),
        Transition("move_in_place", Status.PENDING, Status.PENDING),
        Transition("rename", Status.PENDING, Status.PENDING),
        Transition("retarget", Status.PENDING, Status.PENDING),
        Transition("refresh_content", Status.PENDING, Status.PENDING),
        Transition("soft_delete", Status.PENDING, Status.PENDING),
        Transition("record_sent", Status.PENDING, Status.SENT),
        Transition("record_failed", Status.PENDING, Status.FAILED),
        Transition("give_up", Status.PENDING, Status.FAILED),
        Transition("reject", Status.PENDING, Status.FAILED),
        Transition("miss", Status.PENDING, Status.IS_MISSED),
        Transition("supersede", Status.PENDING, Status.IS_MISSED),
        Transition("confirm", Status.SENT, Status.SUCCESS),
        Transition("leave_unconfirmed", Status.SENT, Status.SUCCESS),
        Transition("receipt_failed", Status.SENT, Status.FAILED),
        Transition("disown", Status.SENT, Status.PENDING),
        Transition("look_again", Status.SENT, Status.SENT),
    }
)
