"""The shapes of Expo's answers, and the manners in which one can arrive or fail to."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

_JSON = "application/json; charset=utf-8"
_HTML = "text/html; charset=utf-8"


class Manner(Enum):
    """How the answer goes out."""

    WHOLE = auto()
    TRICKLE = auto()
    """One byte at a time, ``pause`` seconds between two."""
    CUT = auto()
    """Not at all: after ``pause`` seconds the connection is closed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One HTTP answer, not yet sent."""

    status: int
    body: bytes
    content_type: str = _JSON
    manner: Manner = Manner.WHOLE
    pause: float = 0.0
    delay: float = 0.0
    """Seconds by which the answer is held back after everything was decided."""


def data(value: Any) -> Answer:
    """``200 {"data": …}``."""
    return Answer(200, json.dumps({"data": value}, separators=(",", ":")).encode())


def plain_json(status: int, value: Any) -> Answer:
    """Any JSON at all."""
    return Answer(status, json.dumps(value, separators=(",", ":")).encode())


def error(status: int, code: str, message: str, details: Mapping[str, Any] | None = None) -> Answer:
    """Expo's envelope for a request that was refused as a whole."""
    entry: dict[str, Any] = {"code": code, "message": message, "isTransient": status == 429}  # noqa: PLR2004
    if details is not None:
        entry["details"] = details
    return plain_json(status, {"errors": [entry]})


def html(status: int) -> Answer:
    """A page from a proxy in front of Expo, as its outages look."""
    title = "Welcome" if status == 200 else f"{status} Server Error"  # noqa: PLR2004
    page = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return Answer(status, page.encode(), _HTML)


def cut(after_seconds: float = 0.0) -> Answer:
    """No answer: the connection closes after a while."""
    return Answer(0, b"", manner=Manner.CUT, pause=after_seconds)


def validation_error(message: str) -> Answer:
    """400 for a request whose shape is wrong."""
    return error(400, "VALIDATION_ERROR", message)


def too_many_requests(reason: str) -> Answer:
    """429; nothing of the request was accepted."""
    return error(429, "TOO_MANY_REQUESTS", reason)


def invalid_token() -> Answer:
    """401 for a bearer token that is wrong; this answer alone has no ``errors``."""
    description = "The bearer token is invalid"
    return plain_json(401, {"error": "invalid_token", "error_description": description})


def forbidden() -> Answer:
    """403 for a project that demands an access token and got none."""
    return error(403, "UNAUTHORIZED", "Sending to this project requires an access token.")


def too_many_experience_ids(tokens_by_project: Mapping[str, list[str]]) -> Answer:
    """400 for recipients of several projects in one request."""
    message = "All messages of one request must belong to the same project; see details for who belongs where."
    return error(400, "PUSH_TOO_MANY_EXPERIENCE_IDS", message, tokens_by_project)


def error_result(code: str | None, message: str, token: str | None = None) -> dict[str, Any]:
    """An error ticket or receipt; without a code it has no details."""
    result: dict[str, Any] = {"status": "error", "message": message}
    if code is not None:
        result["details"] = {"error": code} if token is None else {"error": code, "expoPushToken": token}
    return result
