"""Ids as they travel in a broker message: hex for an ObjectId, MongoDB extended JSON for any other type."""

import json
import re
from typing import Any

from bson import ObjectId, Regex, json_util

_HEX = re.compile(r"[0-9a-fA-F]{24}")
_WRAPPED = {"id"}


def to_wire(value: Any) -> Any:
    """The JSON form of an id: a string or an object.

    A string that reads like an ObjectId, and an object of no extended-JSON type, are wrapped as `{"id": …}`.
    """
    if isinstance(value, ObjectId):
        return str(value)
    if isinstance(value, str):
        return {"id": value} if _HEX.fullmatch(value) else value
    extended = json.loads(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS))
    is_typed = isinstance(extended, dict) and any(key.startswith("$") for key in extended)
    return extended if is_typed else {"id": extended}


def from_wire(value: Any) -> Any:
    """The id behind its JSON form.

    Raises:
        ValueError: for what `to_wire` never makes.

    """
    if isinstance(value, str):
        return ObjectId(value) if _HEX.fullmatch(value) else value
    if not isinstance(value, dict) or not value:
        raise ValueError("ids: neither text nor extended JSON")
    inner = value["id"] if set(value) == _WRAPPED else value
    try:
        found = json_util.loads(json.dumps(inner), json_options=json_util.JSONOptions(tz_aware=True))
    except Exception as error:
        raise ValueError(f"ids: {type(error).__name__} in extended JSON") from error
    if isinstance(found, Regex | re.Pattern | list):
        raise ValueError("ids: a pattern or an array is no id")  # noqa: TRY004 - bad text, whatever its type
    return found


def to_text(value: Any) -> str:
    """An id for people and logs: text of a string or number, hex of an ObjectId, else its extended JSON."""
    return str(value) if isinstance(value, str | int | ObjectId) else json_util.dumps(value)
