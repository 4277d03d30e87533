"""One push message as Expo takes it: every field checked here, before it can spoil its neighbours' request.

Source: Expo's documentation of the message request format; the whole payload must fit 4,096 bytes of UTF-8.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.content import Content, fit, payload_bytes
from shared.domain.policy import CategoryPolicy

LIMIT_BYTES = 4096
# What one character takes at most in JSON's UTF-8: an escape such as \u001f.
_LONGEST_CHARACTER = 6
_EMPTY_VALUES = 2 * len('""') + len("{}")


@dataclass(frozen=True)
class ExpoMessage:
    """What the SDK asks of a message: `to` and `get_payload()`. Built by `build_message` alone."""

    to: str
    payload: Mapping[str, Any]

    def get_payload(self) -> Mapping[str, Any]:
        """The JSON object that is posted."""
        return self.payload


@dataclass(frozen=True)
class Envelope:
    """Everything around the words: the device's address, when the push becomes worthless, and its identity."""

    to: str
    expires_at: datetime
    message_id: str
    collapse_id: str


def build_message(envelope: Envelope, content: Content, policy: CategoryPolicy) -> ExpoMessage | None:
    """The message, its text cut to what the payload allows; None if its data alone is too big.

    `expiration` and never `ttl`: what a frozen worker posts late is discarded by Apple or Google at that instant.
    `collapseId` (iOS) and `tag` (Android) make a second copy replace the first on the screen.
    """
    words = Content(content.title, content.body, {**content.data, "messageId": envelope.message_id})
    frame = _frame(envelope, policy)
    fitted = _fitted(words, frame)
    if fitted is None:
        return None
    texts = {name: text for name, text in (("title", fitted.title), ("body", fitted.body)) if text}
    return ExpoMessage(envelope.to, {**frame, **texts, "data": dict(fitted.data)})


def _fitted(words: Content, frame: Mapping[str, Any]) -> Content | None:
    """The words within what the rest of the message leaves of the limit."""
    rest = payload_bytes({**frame, "title": "", "body": "", "data": words.data})
    if rest + _LONGEST_CHARACTER * (len(words.title) + len(words.body)) <= LIMIT_BYTES:
        return words  # nearly every message: short enough however it is counted
    # `fit` counts the three values; whatever else the message holds, their names included, is overhead.
    return fit(words, LIMIT_BYTES - payload_bytes({**frame, "title": "", "body": "", "data": {}}) + _EMPTY_VALUES)


def _frame(envelope: Envelope, policy: CategoryPolicy) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "to": envelope.to,
        "expiration": int(envelope.expires_at.timestamp()),
        "collapseId": envelope.collapse_id,
        "tag": envelope.collapse_id,
        "priority": policy.priority,
        "interruptionLevel": policy.interruption_level,
        "channelId": policy.channel_id,
        "sound": policy.sound,
    }
    return {name: value for name, value in fields.items() if value is not None}


def collapse_id(row: Mapping[str, Any]) -> str:
    """The same short name for every attempt at one occurrence on one device, 32 characters."""
    if row.get("reminderId") is None:
        identity = repr(row["_id"])
    else:
        identity = "|".join(repr(row.get(name)) for name in ("reminderId", "deviceId", "localDate", "localTime"))
    return hashlib.sha256(identity.encode()).hexdigest()[:32]
