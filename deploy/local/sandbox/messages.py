"""What Expo accepts as a push message, field by field."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MAX_PAYLOAD_BYTES = 4096
_MAX_COLLAPSE_ID_BYTES = 64
# Not part of what travels to the phone.
_ROUTING_FIELDS = frozenset({"to"})


class RequestError(ValueError):
    """The request as a whole is refused; the text names the path of what is wrong, such as ``"[0].data"``."""


@dataclass(frozen=True, slots=True)
class Message:
    """One item of a send request, checked."""

    fields: dict[str, Any]
    recipients: list[str]
    size: int
    """Bytes of UTF-8 that its compact JSON takes without the recipients."""

    @property
    def message_id(self) -> str | None:
        """``data.messageId`` as text, or None."""
        value = self.fields.get("data", {}).get("messageId")
        return value if value is None or isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class Submission:
    """A whole send request: its messages, and whether it was a single object (so will be the answer)."""

    messages: list[Message]
    single: bool

    @property
    def recipients(self) -> list[str]:
        """Every recipient in the order of the tickets, repeated ones too."""
        return [token for message in self.messages for token in message.recipients]


def read_submission(body: object) -> Submission:
    """The messages in a decoded request body. Raises RequestError for the first thing that is wrong."""
    if isinstance(body, dict):
        return Submission([_message(body, "")], single=True)
    if not isinstance(body, list):
        raise RequestError('"value" must be one of [array, object]')
    return Submission([_message(item, f"[{index}]") for index, item in enumerate(body)], single=False)


def read_receipt_ids(body: object) -> list[str]:
    """The ticket ids in a decoded receipts request. Raises RequestError."""
    if not isinstance(body, dict):
        raise RequestError('"value" must be of type object')
    if "ids" not in body:
        raise RequestError('"ids" is required')
    ids = body["ids"]
    if not isinstance(ids, list):
        raise RequestError('"ids" must be an array')
    for index, ticket_id in enumerate(ids):
        if not isinstance(ticket_id, str):
            raise RequestError(f'"ids[{index}]" must be a string')
    return ids


def _message(item: object, path: str) -> Message:
    if not isinstance(item, dict):
        raise RequestError(f'"{path}" must be of type object')
    prefix = f"{path}." if path else ""
    recipients = _recipients(item, f"{prefix}to")
    for name, value in item.items():
        check = _CHECKS.get(name)
        complaint = check(value) if check else None
        if complaint is not None:
            raise RequestError(f'"{prefix}{name}" {complaint}')
    travelling = {name: value for name, value in item.items() if name not in _ROUTING_FIELDS}
    text = json.dumps(travelling, ensure_ascii=False, separators=(",", ":"))
    return Message(item, recipients, len(text.encode("utf-8", "surrogatepass")))


def _recipients(item: Mapping[str, Any], path: str) -> list[str]:
    if "to" not in item:
        raise RequestError(f'"{path}" is required')
    to = item["to"]
    if isinstance(to, str):
        return [to]
    if not isinstance(to, list):
        raise RequestError(f'"{path}" must be one of [string, array]')
    if not to:
        raise RequestError(f'"{path}" must contain at least 1 items')
    for index, token in enumerate(to):
        if not isinstance(token, str):
            raise RequestError(f'"{path}[{index}]" must be a string')
    return to


def _text(value: object) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "must be a boolean"


def _mapping(value: object) -> str | None:
    return None if isinstance(value, dict) else "must be of type object"


def _number(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "must be a number"
    return None if value >= 0 else "must be greater than or equal to 0"


def _integer(value: object) -> str | None:
    complaint = _number(value)
    if complaint is None and isinstance(value, float) and not value.is_integer():
        return "must be an integer"
    return complaint


def _one_of(*names: str) -> Callable[[object], str | None]:
    complaint = f"must be one of [{', '.join(names)}]"
    return lambda value: None if isinstance(value, str) and value in names else complaint


def _sound(value: object) -> str | None:
    return None if value is None or isinstance(value, str | dict) else "must be one of [string, object, null]"


def _collapse_id(value: object) -> str | None:
    complaint = _text(value)
    if complaint is None and len(str(value).encode("utf-8", "surrogatepass")) > _MAX_COLLAPSE_ID_BYTES:
        return f"must be at most {_MAX_COLLAPSE_ID_BYTES} bytes long"
    return complaint


def _rich_content(value: object) -> str | None:
    if not isinstance(value, dict):
        return "must be of type object"
    return None if isinstance(value.get("image", ""), str) else "must have a string as its image"


_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "title": _text,
    "subtitle": _text,
    "body": _text,
    "data": _mapping,
    "ttl": _integer,
    "expiration": _integer,
    "priority": _one_of("default", "normal", "high"),
    "sound": _sound,
    "badge": _integer,
    "channelId": _text,
    "icon": _text,
    "categoryId": _text,
    "interruptionLevel": _one_of("active", "critical", "passive", "time-sensitive"),
    "mutableContent": _boolean,
    "contentAvailable": _boolean,
    "_contentAvailable": _boolean,
    "richContent": _rich_content,
    "threadId": _text,
    "collapseId": _collapse_id,
    "tag": _text,
}
