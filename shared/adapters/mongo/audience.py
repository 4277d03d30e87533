"""Users, reminders and tokens: read only, in batches, as raw documents for `shared.domain.documents` to judge."""

from collections.abc import Iterator, Sequence
from typing import Any

from bson import Regex
from bson.codec_options import CodecOptions, DatetimeConversion

from shared.adapters.mongo.client import Database, Document, translated

_USER = {"timezone": 1, "locale": 1, "isActive": 1, "preferences": 1}
_ADDRESS = {"userId": 1, "deviceId": 1, "token": 1, "project": 1, "isActive": 1}
_TOKEN = {**_ADDRESS, "createdAt": 1}


class Audience:
    """Who is to be reminded of what, and where they can be reached."""

    def __init__(self, database: Database) -> None:
        # Dates come naive (UTC, as BSON means them): aware ones cost the reading of a reminder half as much again,
        # and `shared.domain.documents` makes aware the few that are looked at.
        naive = CodecOptions[Document](datetime_conversion=DatetimeConversion.DATETIME_AUTO)
        self._users = database["users"].with_options(codec_options=naive)
        self._reminders = database["reminders"].with_options(codec_options=naive)
        self._tokens = database["notification_tokens"].with_options(codec_options=naive)

    def batches(self, size: int) -> Iterator[list[Document]]:
        """All users, `size` at a time, in the order of their ids; memory holds one batch."""
        batch: list[Document] = []
        with translated(), self._users.find({}, _USER, batch_size=size).sort("_id", 1) as cursor:
            for user in cursor:
                batch.append(user)
                if len(batch) == size:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def users(self, ids: Sequence[Any]) -> list[Document]:
        """The users with these ids."""
        with translated():
            return list(self._users.find({"_id": {"$in": _askable(ids)}}, _USER))

    def reminders(self, ids: Sequence[Any]) -> list[Document]:
        """The reminders with these ids."""
        with translated():
            return list(self._reminders.find({"_id": {"$in": _askable(ids)}}, {"updatedAt": 0}))

    def reminders_of(self, user_ids: Sequence[Any]) -> list[Document]:
        """All reminders of these users, cancelled ones too: their pending rows must go."""
        with translated():
            return list(self._reminders.find({"userId": {"$in": _askable(user_ids)}}))

    def active_tokens_of(self, user_ids: Sequence[Any]) -> list[Document]:
        """The active tokens of these users."""
        with translated():
            return list(self._tokens.find({"userId": {"$in": _askable(user_ids)}, "isActive": True}, _TOKEN))

    def active_tokens_on(self, device_ids: Sequence[Any]) -> list[Document]:
        """The active tokens of these devices, whoever owns them."""
        with translated():
            return list(self._tokens.find({"deviceId": {"$in": _askable(device_ids)}, "isActive": True}, _ADDRESS))


def _askable(ids: Sequence[Any]) -> list[Any]:
    """The ids a query can hold: one that reads like an operator (JSON taken for extended JSON) is nobody's."""
    return [one for one in ids if not _reads_like_operator(one)]


def _reads_like_operator(value: Any) -> bool:
    if isinstance(value, dict):
        return any(str(name).startswith("$") or _reads_like_operator(item) for name, item in value.items())
    return isinstance(value, list | Regex)
