"""New notification messages, as documents."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from creator.domain.occurrences import Occurrence
from shared.domain.content import Content
from shared.domain.documents import Reminder, Token, User
from shared.domain.states import Status

Document = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """Whom a row is for and what it says."""

    user: User
    reminder: Reminder
    content: Content


def new_row(subject: Subject, token: Token, occurrence: Occurrence, planned_at: datetime) -> Document:
    """The pending row of one occurrence on one device; `planned_at` is the server time at which the plan began."""
    user, reminder, content = subject.user, subject.reminder, subject.content
    return {
        "userId": user.id,
        "deviceId": token.device_id,
        "notificationTokenId": token.id,
        "reminderId": reminder.id,
        "category": reminder.category,
        "label": reminder.label,
        "localDate": occurrence.local_date,
        "localTime": occurrence.local_time,
        "timezone": user.timezone,
        "scheduledAt": occurrence.scheduled_at,
        "title": content.title,
        "body": content.body,
        "data": content.data,
        "createdAt": planned_at,
        "plannedAt": planned_at,
        **blank_state(),
    }


def blank_state() -> Document:
    """The state of a row that nothing has happened to."""
    return {
        "status": Status.PENDING.value,
        "reason": None,
        "isDeleted": False,
        "resolvedAt": None,
        "enqueuedAt": None,
        "claim": None,
        "attempts": 0,
        "attemptId": None,
        "attemptStartedAt": None,
        "unresolvedAttempts": 0,
        "nextAttemptAt": None,
        "sentAt": None,
        "ticketId": None,
    }
