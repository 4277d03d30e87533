"""Every change of a notification token, one named constructor per move, guarded like those of the messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.domain.moves import Move


class RetiredReason(StrEnum):
    """Why a token is no longer used."""

    DEVICE_NOT_REGISTERED = "device_not_registered"
    REPEATED_FAILURES = "repeated_failures"
    REPLACED = "replaced"
    MOVED = "moved"
    LOGGED_OUT = "logged_out"


@dataclass(frozen=True)
class Registration:
    """What a phone says when its user logs in, as one value."""

    user_id: Any
    device_id: Any
    token: str
    platform: str
    project: str | None = None


def _retired(reason: RetiredReason) -> dict[str, Any]:
    return {"isActive": False, "retiredAt": "$$NOW", "retiredReason": reason.value}


def retire_dead(token_id: Any, carried_by_request_at: datetime) -> Move:
    """The provider no longer knows it; unless the phone has registered again since the request was made."""
    where = {"_id": token_id, "isActive": True, "lastSeenAt": {"$not": {"$gt": carried_by_request_at}}}
    return Move(where, [{"$set": _retired(RetiredReason.DEVICE_NOT_REGISTERED)}])


def count_failures(token_id: Any, failures: int, ceiling: int) -> Move:
    """Add consecutive device failures; at `ceiling` the token is retired."""
    count = {"$add": [{"$ifNull": ["$failureCount", 0]}, failures]}
    reached = {"$and": ["$isActive", {"$gte": ["$failureCount", ceiling]}]}
    retired = {
        name: {"$cond": [reached, value, f"${name}"]}
        for name, value in _retired(RetiredReason.REPEATED_FAILURES).items()
    }
    return Move({"_id": token_id}, [{"$set": {"failureCount": count}}, {"$set": retired}])


def reset_failures(token_ids: Sequence[Any]) -> Move:
    """A confirmed receipt: the device is well."""
    return Move({"_id": {"$in": list(token_ids)}, "failureCount": {"$gt": 0}}, [{"$set": {"failureCount": 0}}])


def retire_rivals(registration: Registration) -> Move:
    """Retire whatever else is active on this device or under this token."""
    same_device = {"$eq": ["$deviceId", {"$literal": registration.device_id}]}
    reason = {"$cond": [same_device, RetiredReason.REPLACED.value, RetiredReason.MOVED.value]}
    rivals = {
        "isActive": True,
        "$or": [{"deviceId": registration.device_id}, {"token": registration.token}],
        "$nor": [_identity(registration)],
    }
    return Move(rivals, [{"$set": {**_retired(RetiredReason.REPLACED), "retiredReason": reason}}])


def see_again(registration: Registration) -> Move:
    """The same user, device and token once more: still the same registration."""
    change = {"lastSeenAt": "$$NOW", "platform": registration.platform, "project": registration.project}
    literal = {name: value if value == "$$NOW" else {"$literal": value} for name, value in change.items()}
    return Move({**_identity(registration), "isActive": True}, [{"$set": literal}])


def log_out(device_id: Any) -> Move:
    """The user left this device."""
    return Move({"deviceId": device_id, "isActive": True}, [{"$set": _retired(RetiredReason.LOGGED_OUT)}])


def new_token(registration: Registration, now: datetime) -> dict[str, Any]:
    """The document of a first registration, or of one that differs in user, device or token."""
    return {
        **_identity(registration),
        "platform": registration.platform,
        "project": registration.project,
        "isActive": True,
        "failureCount": 0,
        "createdAt": now,
        "lastSeenAt": now,
        "retiredAt": None,
        "retiredReason": None,
    }


def _identity(registration: Registration) -> dict[str, Any]:
    return {
        "userId": registration.user_id,
        "deviceId": registration.device_id,
        "token": registration.token,
    }
