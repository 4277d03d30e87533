"""Ids of any BSON type as dictionary keys."""

from collections.abc import Hashable
from typing import Any


def id_key(value: Any) -> Hashable:
    """A hashable stand-in for an id: itself, or nested tuples for a document or an array."""
    kind = type(value)  # as the driver decodes: no subclasses, and this is asked several times for every row
    if kind is dict:
        return tuple((name, id_key(item)) for name, item in value.items())
    if kind is list:
        return tuple(id_key(item) for item in value)
    if kind is bool:
        return (bool, value)  # in Python true equals 1; in MongoDB they are two people
    return value  # type: ignore[no-any-return]
