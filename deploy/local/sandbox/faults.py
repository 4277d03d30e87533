"""The closed list of faults that a test can order, and the check of such orders."""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Fault(StrEnum):
    """Everything that can be made to go wrong."""

    REFUSE = "refuse"
    RATE_LIMITED = "rate_limited"
    SERVER_ERROR_BEFORE = "server_error_before"
    SERVER_ERROR_AFTER = "server_error_after"
    CLOSE_AFTER = "close_after"
    HANG = "hang"
    TRICKLE = "trickle"
    WRONG_TICKET_COUNT = "wrong_ticket_count"
    NOT_JSON = "not_json"
    NULL_BODY = "null_body"
    MISSING_TICKET_ID = "missing_ticket_id"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    TICKET_ERROR = "ticket_error"
    RECEIPT_ERROR = "receipt_error"
    RECEIPT_MISSING = "receipt_missing"
    RECEIPT_DELAYED = "receipt_delayed"
    TOO_MANY_EXPERIENCE_IDS = "too_many_experience_ids"
    VALIDATION_ERROR = "validation_error"
    DELAY = "delay"


class On(StrEnum):
    """Which requests an order is for."""

    SEND = "send"
    RECEIPTS = "receipts"
    ANY = "any"


PER_RECIPIENT = frozenset(
    {
        Fault.MISSING_TICKET_ID,
        Fault.TICKET_ERROR,
        Fault.RECEIPT_ERROR,
        Fault.RECEIPT_MISSING,
        Fault.RECEIPT_DELAYED,
    }
)
"""Faults that strike single recipients of a request; all others strike the request."""

SEND_ONLY = PER_RECIPIENT | {Fault.WRONG_TICKET_COUNT, Fault.TOO_MANY_EXPERIENCE_IDS, Fault.VALIDATION_ERROR}
"""Faults that make no sense for a receipts request."""


class OrdersError(ValueError):
    """A list of orders that cannot be carried out; nothing was changed. The text says which part is wrong."""


@dataclass(slots=True)
class Order:
    """One fault to bring about, within its limits, and how often it has been so far."""

    fault: Fault
    on: On = On.SEND
    times: int | None = None
    share: float = 1.0
    seed: int = 0
    tokens: frozenset[str] | None = None
    for_seconds: float | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    fired: int = 0
    """Requests struck."""
    recipients: int = 0
    """Recipients struck, by a fault that strikes recipients."""

    def describe(self) -> dict[str, Any]:
        """The order as ``GET /_faults`` shows it."""
        limits = {
            "on": self.on,
            "times": self.times,
            "share": self.share,
            "seed": self.seed,
            "tokens": None if self.tokens is None else sorted(self.tokens),
            "for_seconds": self.for_seconds,
        }
        counts = {"fired": self.fired, "recipients": self.recipients}
        return {"fault": self.fault} | limits | self.parameters | counts


@dataclass(frozen=True, slots=True)
class _Field:
    """What one value of an order may be."""

    accepts: Callable[[Any], bool]
    wanted: str
    default: Any = None
    required: bool = False


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_tokens(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(token, str) for token in value)


_LIMITS: Mapping[str, _Field] = {
    "on": _Field(lambda v: _is_text(v) and v in set(On), "one of send, receipts, any", On.SEND),
    "times": _Field(lambda v: _is_integer(v) and v >= 1, "a whole number of requests, at least 1"),
    "share": _Field(lambda v: _is_number(v) and 0 < v <= 1, "a number above 0, at most 1", 1.0),
    "seed": _Field(_is_integer, "a whole number", 0),
    "tokens": _Field(_is_tokens, "a list of push tokens, not empty"),
    "for_seconds": _Field(lambda v: _is_number(v) and v > 0, "a number of seconds above 0"),
}

_STATUS = _Field(lambda v: _is_integer(v) and 500 <= v <= 599, "an HTTP status from 500 to 599", 503)  # noqa: PLR2004


def _error(default_message: str) -> dict[str, _Field]:
    return {
        "error": _Field(_is_text, "an error name such as MessageRateExceeded", required=True),
        "message": _Field(_is_text, "a text", default_message),
        "details": _Field(lambda v: isinstance(v, bool), "true, or false to leave the details out", default=True),
    }


def _seconds(default: float | None) -> _Field:
    wanted = "a number of seconds, at least 0"
    return _Field(lambda v: _is_number(v) and v >= 0, wanted, default, required=default is None)


_PARAMETERS: Mapping[Fault, Mapping[str, _Field]] = {
    Fault.SERVER_ERROR_BEFORE: {"status": _STATUS},
    Fault.SERVER_ERROR_AFTER: {"status": _STATUS},
    Fault.HANG: {
        "seconds": _seconds(60.0),
        "accepted": _Field(lambda v: isinstance(v, bool), "true or false", default=True),
    },
    Fault.TRICKLE: {"ms": _Field(lambda v: _is_number(v) and v >= 0, "milliseconds between two bytes", 100)},
    Fault.WRONG_TICKET_COUNT: {"by": _Field(lambda v: _is_integer(v) and v != 0, "a whole number, not 0", -1)},
    Fault.TICKET_ERROR: _error("The push service refused this recipient"),
    Fault.RECEIPT_ERROR: _error("The notification could not be delivered"),
    Fault.RECEIPT_DELAYED: {"seconds": _seconds(None)},
    Fault.VALIDATION_ERROR: {
        "index": _Field(lambda v: _is_integer(v) and v >= 0, "the index of a message", 0),
        "field": _Field(_is_text, "the name of a field", "data"),
    },
    Fault.DELAY: {"ms": _Field(lambda v: _is_number(v) and v >= 0, "milliseconds", required=True)},
}


def read_orders(body: object) -> list[Order]:
    """The orders in a decoded ``PUT /_faults`` body. Raises OrdersError."""
    if not isinstance(body, list):
        raise OrdersError("the body must be a list of orders")
    return [_read_order(item, f"[{index}]") for index, item in enumerate(body)]


def parameters_of(fault: Fault) -> frozenset[str]:
    """The names of the parameters that this fault alone understands."""
    return frozenset(_PARAMETERS.get(fault, {}))


def _read_order(item: object, path: str) -> Order:
    if not isinstance(item, dict):
        raise OrdersError(f"{path} must be an object")
    name = item.get("fault")
    if not isinstance(name, str) or name not in set(Fault):
        raise OrdersError(f"{path}.fault cannot be {name!r}{_suggestion(str(name), list(Fault))}")
    fault = Fault(name)
    known = {**_LIMITS, **_PARAMETERS.get(fault, {})}
    for key in item.keys() - {"fault"} - known.keys():
        raise OrdersError(f"{path}.{key} is not known for {fault}{_suggestion(key, list(known))}")
    values = {key: _value(item, key, known[key], path) for key in known}
    order = Order(fault, parameters={key: values[key] for key in parameters_of(fault)})
    for key in _LIMITS:
        setattr(order, key, values[key])
    order.on = On(order.on)
    order.tokens = None if order.tokens is None else frozenset(order.tokens)
    _check_combination(order, path)
    return order


def _value(item: Mapping[str, Any], key: str, wanted: _Field, path: str) -> Any:
    if key not in item:
        if wanted.required:
            raise OrdersError(f"{path}.{key} is required: {wanted.wanted}")
        return wanted.default
    value = item[key]
    if value is None and not wanted.required and wanted.default is None:
        return None
    if not wanted.accepts(value):
        raise OrdersError(f"{path}.{key} must be {wanted.wanted}, not {value!r}")
    return value


def _check_combination(order: Order, path: str) -> None:
    if order.on is not On.SEND and order.fault in SEND_ONLY:
        raise OrdersError(f"{path}.on: {order.fault} is for send requests only")
    if order.tokens is not None and (order.fault is Fault.REFUSE or order.on is not On.SEND):
        raise OrdersError(f"{path}.tokens: no recipients are known where this order strikes")


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
