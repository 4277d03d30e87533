"""Everything a decision about pending rows needs to know, read at this moment in three queries."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.client import Document
from shared.domain.decision import Circumstances
from shared.domain.documents import (
    BadDocument,
    Reminder,
    Token,
    User,
    parse_reminder,
    parse_token,
    parse_user,
)
from shared.domain.ids import id_key


def read_circumstances(audience: Audience, rows: Sequence[Document]) -> list[Circumstances]:
    """What is known now of each of `rows`, in their order. What cannot be understood counts as not there."""
    users = {id_key(document["_id"]): document for document in audience.users(_distinct(rows, "userId"))}
    reminder_ids = _distinct(rows, "reminderId")
    documents = audience.reminders(reminder_ids) if reminder_ids else []
    reminders = {id_key(document["_id"]): document for document in documents}
    tokens = {
        id_key(document["deviceId"]): document for document in audience.active_tokens_on(_distinct(rows, "deviceId"))
    }
    return [_circumstances(row, users, reminders, tokens) for row in rows]


def _circumstances(
    row: Document,
    users: Mapping[Hashable, Document],
    reminders: Mapping[Hashable, Document],
    tokens: Mapping[Hashable, Document],
) -> Circumstances:
    user = _user(users.get(id_key(row.get("userId"))))
    reminder = _reminder(reminders.get(id_key(row.get("reminderId"))), user)
    return Circumstances(user, reminder, _token(tokens.get(id_key(row.get("deviceId")))))


def _user(document: Document | None) -> User | None:
    try:
        return None if document is None else parse_user(document)
    except BadDocument:
        return None


def _reminder(document: Document | None, user: User | None) -> Reminder | None:
    try:
        return None if document is None or user is None else parse_reminder(document, user.zone)
    except BadDocument:
        return None


def _token(document: Document | None) -> Token | None:
    try:
        return None if document is None else parse_token(document)
    except BadDocument:
        return None


def _distinct(rows: Iterable[Document], name: str) -> list[Any]:
    found = {id_key(row[name]): row[name] for row in rows if row.get(name) is not None}
    return list(found.values())
