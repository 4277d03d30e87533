"""Moves a row whose instant has changed, and first whatever stands in its way and must move too.

A user who flies west by an hour shifts all of a reminder's hourly times: each row must go where the next one still
stands. Only a row that really belongs at that instant makes another one superfluous.
"""

from collections.abc import Mapping
from enum import Enum

from pymongo.errors import DuplicateKeyError

from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.circumstances import read_circumstances
from shared.adapters.mongo.client import Database, Document, apply, server_now, translated
from shared.domain import moves
from shared.domain.decision import Postpone, Rules, decide
from shared.domain.moves import LIVE, Placement

# More times than a reminder has in a day.
_DEEPEST = 100
_UNIQUE = ("userId", "category", "label")


class Relocated(Enum):
    """What became of a row that should move."""

    MOVED = "moved"
    SUPERSEDED = "superseded"
    HELD = "held"
    """Nothing was changed: somebody holds the row, or the one in its way."""


class Relocator:
    """Moves pending rows in place; `rules` of a category decide whether a row in the way must move as well."""

    def __init__(self, database: Database, rules: Mapping[str, Rules]) -> None:
        self._database = database
        self._messages = database["notification_messages"]
        self._audience = Audience(database)
        self._rules = rules

    def relocate(self, row: Document, placement: Placement, owner: str | None) -> Relocated:
        """Move `row`; `owner` is the claim that holds it, None if nobody does.

        Raises:
            DatabaseUnavailable: it may or may not have moved.

        """
        return self._relocate(row, placement, owner, depth=0)

    def _relocate(self, row: Document, placement: Placement, owner: str | None, depth: int) -> Relocated:
        for _ in range(2):
            try:
                moved = apply(self._messages, moves.move_in_place(row["_id"], placement, owner))
            except DuplicateKeyError:
                if depth == _DEEPEST or not self._clear(row, placement, depth):
                    break
            else:
                return Relocated.MOVED if moved else Relocated.HELD
        blocker = self._blocker(row, placement)
        if blocker is not None and self._destination(blocker) is not None:
            return Relocated.HELD  # it belongs elsewhere and cannot be moved now
        ended = apply(self._messages, moves.supersede(row["_id"], owner))
        return Relocated.SUPERSEDED if ended else Relocated.HELD

    def _clear(self, row: Document, placement: Placement, depth: int) -> bool:
        """Move what stands in the way, if it belongs elsewhere itself; whether the way is clear now."""
        blocker = self._blocker(row, placement)
        if blocker is None:
            return True
        destination = self._destination(blocker)
        if destination is None:
            return False
        return self._relocate(blocker, destination, None, depth + 1) is not Relocated.HELD

    def _blocker(self, row: Document, placement: Placement) -> Document | None:
        key = {name: row[name] for name in _UNIQUE}
        where = {**key, "notificationTokenId": placement.token_id, "scheduledAt": placement.scheduled_at, **LIVE}
        with translated():
            return self._messages.find_one({**where, "_id": {"$ne": row["_id"]}})

    def _destination(self, row: Document) -> Placement | None:
        rules = self._rules.get(str(row.get("category")))
        if rules is None:
            return None
        [known] = read_circumstances(self._audience, [row])
        verdict = decide(row, known, rules, server_now(self._database))
        return verdict.placement if isinstance(verdict, Postpone) else None
