"""Ring: put rows on the broker and note in them that the broker has answered. Shared by relay and sweep."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.wire_ids import to_wire
from shared.adapters.stomp.bell import Bell
from shared.domain import moves
from shared.domain.decision import due_at
from shared.domain.envelope import Kind, group_by_due
from shared.runtime.metrics import Metrics

Document = dict[str, Any]
Now = Callable[[], datetime]


@dataclass(frozen=True)
class RingRules:
    """The database's clock, how many rows a frame carries, and which categories have a queue."""

    now: Now
    batch_size: int
    categories: frozenset[str]


class Ringer:
    """Rows in, frames out, `enqueuedAt` last: without the broker's receipt a row counts as not rung.

    Rows of a category without a queue are not rung; a sweep ends them once they are due.
    """

    def __init__(self, bell: Bell, backlog: Backlog, rules: RingRules, metrics: Metrics) -> None:
        self._bell, self._backlog = bell, backlog
        self._rules, self._metrics = rules, metrics

    def publish(self, rows: Sequence[Document]) -> list[Any]:
        """Ring pending rows (`_id`, `category`, `scheduledAt`, `nextAttemptAt`) at their time; their ids.

        Raises:
            BrokerUnavailable: some may have been rung; ring all of them again.

        """
        known = [row for row in rows if str(row.get("category")) in self._rules.categories and _has_times(row)]
        instants = ((row, due_at(row)) for row in known)
        due = [(to_wire(row["_id"]), row["category"], instant) for row, instant in instants if instant is not None]
        self._bell.ring(list(group_by_due(Kind.SEND, due, self._rules.batch_size)), self._rules.now())
        for category, count in Counter(row["category"] for row in known).items():
            self._metrics.enqueued.labels(category).inc(count)
        return [row["_id"] for row in known]

    def ring_receipts(self, rows: Sequence[Document]) -> int:
        """Ring sent rows so that their receipts are asked for now, and note it; how many."""
        now = self._rules.now()
        due = [(to_wire(row["_id"]), row["category"], now) for row in rows]
        self._bell.ring(list(group_by_due(Kind.RECEIPTS, due, self._rules.batch_size)), now)
        self.note([row["_id"] for row in rows])
        return len(rows)

    def note(self, ids: Sequence[Any]) -> None:
        """Remember that the broker has these rows."""
        if ids:
            self._backlog.apply(moves.enqueued(ids))

    def ring(self, rows: Sequence[Document]) -> int:
        """Publish, then note; how many rows were rung."""
        ids = self.publish(rows)
        self.note(ids)
        return len(ids)


def _has_times(row: Document) -> bool:
    """Whether its times are instants; a sweep ends what has others."""
    next_attempt_at = row.get("nextAttemptAt")
    return isinstance(row.get("scheduledAt"), datetime) and isinstance(next_attempt_at, datetime | None)
