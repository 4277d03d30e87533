"""Ends rows for good and lets their tokens feel it, in one transaction. Shared by send and receipts."""

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from consumer.domain.brake import RetireBrake
from shared.adapters.mongo.client import Document
from shared.adapters.mongo.messages import MessageStore, Settlement
from shared.domain import token_moves
from shared.domain.ids import id_key
from shared.domain.moves import Move
from shared.domain.states import DEVICE_FAILURES, Reason, Status
from shared.runtime.clock import boottime
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

# From a name that marks the rows of this transaction, the move that ends them.
Ending = Callable[[str], Move]


class Settler:
    """Applies endings and their effects on tokens exactly once, however often they are repeated."""

    def __init__(self, store: MessageStore, brake: RetireBrake, failure_ceiling: int, metrics: Metrics) -> None:
        self._store, self._brake = store, brake
        self._ceiling, self._metrics = failure_ceiling, metrics
        self._log = get_logger("settle")

    def settle(self, endings: Sequence[Ending], judged: int) -> None:
        """Make all `endings` and adjust tokens. `judged` is how many devices the same answer spoke of.

        Raises:
            DatabaseUnavailable: nothing is known to have happened; do it again.

        """
        if not endings:
            self._brake.believes(judged, 0, boottime())  # it must hear of the living too
            return
        settled_by = uuid.uuid4().hex
        settlements = [Settlement(ending(settled_by), settled_by) for ending in endings]
        verdict: list[bool] = []

        def effects(moved: Sequence[Document]) -> Iterable[Move]:
            # The driver may repeat the transaction; the brake must hear of the batch once.
            if not verdict:
                dead = sum(row["reason"] == Reason.DEVICE_NOT_REGISTERED for row in moved)
                verdict.append(self._brake.believes(max(judged, dead), dead, boottime()))
            return _token_moves(moved, self._ceiling, retire=verdict[0])

        moved = self._store.settle(settlements, effects)
        self._count(moved, believed=all(verdict))

    def _count(self, moved: Sequence[Document], *, believed: bool) -> None:
        for (category, status, reason), count in Counter(
            (row["category"], row["status"], row["reason"]) for row in moved
        ).items():
            self._metrics.resolved.labels(category, status, reason).inc(count)
        dead = [row for row in moved if row["reason"] == Reason.DEVICE_NOT_REGISTERED]
        if not dead:
            return
        if believed:
            self._metrics.tokens_retired.labels(Reason.DEVICE_NOT_REGISTERED.value).inc(len(dead))
            self._log.info("tokens_retired", token_ids=[str(row["notificationTokenId"]) for row in dead])
        else:
            self._metrics.retire_brake.inc()
            self._log.error("mass_retirement_not_believed", rows=len(dead))


def _token_moves(moved: Sequence[Document], ceiling: int, *, retire: bool) -> Iterable[Move]:
    """One kind of move per token, since the server may make them in any order: dead, well, or once more failing."""
    rows_of: dict[Hashable, list[Document]] = defaultdict(list)
    for row in moved:
        rows_of[id_key(row["notificationTokenId"])].append(row)
    well: list[Any] = []
    for rows in rows_of.values():
        token_id = rows[0]["notificationTokenId"]
        dead = [row for row in rows if row["reason"] == Reason.DEVICE_NOT_REGISTERED]
        failures = sum(row["status"] == Status.FAILED and row["reason"] in DEVICE_FAILURES for row in rows)
        if dead and retire:
            yield token_moves.retire_dead(token_id, max(_asked_at(row) for row in dead))
        elif any(row["reason"] == Reason.CONFIRMED for row in rows):
            well.append(token_id)
        elif failures:
            yield token_moves.count_failures(token_id, failures, ceiling)
    if well:
        yield token_moves.reset_failures(well)


def _asked_at(row: Mapping[str, Any]) -> datetime:
    asked_at: datetime = row["attemptStartedAt"]
    return asked_at
