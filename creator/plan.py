"""Plan: work out what every user should get, and insert what is not there yet.

The story: take the server's time, stream the users in batches, read what exists, insert the rest, move what only
changed its instant, delete what no longer exists. Any number of plans may run at once or be killed: the unique
indexes let each occurrence in once, and a slow plan cannot undo a newer one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from creator.domain.rows import Document
from creator.domain.wanted import Batch, BatchPlan, Changes, Moment, PlannedMove, calendars
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.plan_rows import PlanRows
from shared.domain import moves
from shared.domain.ids import id_key
from shared.domain.policy import Policies
from shared.domain.states import DeletedReason, SkipReason
from shared.runtime.ahead import one_ahead
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

USERS_PER_BATCH = 500
# The widest distance between a UTC date and somebody's local date, and one more for a zone that changes.
_DATE_MARGIN = timedelta(days=2)


@dataclass
class PlanReport:
    """What a plan did. `errors` counts rows that could not be inserted for a reason other than being there."""

    planned: int = 0
    already: int = 0
    moved: int = 0
    deleted: int = 0
    errors: int = 0
    skipped: Counter[SkipReason] = field(default_factory=Counter)

    def add(self, other: "PlanReport") -> None:
        """Add what another part of the same plan did."""
        self.planned += other.planned
        self.already += other.already
        self.moved += other.moved
        self.deleted += other.deleted
        self.errors += other.errors
        self.skipped.update(other.skipped)

    def summary(self) -> dict[str, Any]:
        """The closing line: planned, already, skipped by reason."""
        skipped = {reason.value: count for reason, count in sorted(self.skipped.items()) if count}
        return {"planned": self.planned, "already": self.already, "skipped": skipped}


@dataclass(frozen=True)
class PlanOptions:
    """`at` moves the planner's now alone; `show` is called for each row of a dry run, which writes nothing.

    `is_ours` says whether the batch of users with this number is to be planned here.
    """

    horizon: timedelta
    at: datetime | None = None
    show: Callable[[Document], None] | None = None
    is_ours: Callable[[int], bool] = lambda _number: True


class Planner:
    """One run of the plan stage."""

    def __init__(self, audience: Audience, rows: PlanRows, policies: Policies, metrics: Metrics) -> None:
        self._audience, self._rows = audience, rows
        self._policies, self._metrics = policies, metrics
        self._report = PlanReport()
        self._log = get_logger("plan")

    def run(self, started: datetime, options: PlanOptions) -> PlanReport:
        """Plan for all users. `started` is the server's time, taken before anything is read."""
        now = options.at or started
        moment = Moment(now, now + options.horizon, started)
        by_category = calendars(self._policies, moment)
        with self._writer() as write:
            for batch in one_ahead(self._batches(moment, options.is_ours)):
                changes = BatchPlan(self._policies, by_category, moment, self._complain).work_out(batch)
                if options.show is not None:
                    self._show(changes, options.show)
                else:
                    write(changes, started)
        for reason, count in self._report.skipped.items():
            self._metrics.skipped.labels(reason.value).inc(count)
        return self._report

    def _batches(self, moment: Moment, is_ours: Callable[[int], bool]) -> Iterator[Batch]:
        for number, users in enumerate(self._audience.batches(USERS_PER_BATCH)):
            if is_ours(number):
                yield self._read(users, moment)

    def _read(self, users: list[Document], moment: Moment) -> Batch:
        user_ids = [user["_id"] for user in users]
        reminders = self._audience.reminders_of(user_ids)
        tokens = self._audience.active_tokens_of(user_ids) if reminders else []
        first, last = moment.now - _DATE_MARGIN, moment.horizon_end + _DATE_MARGIN
        ids = [reminder["_id"] for reminder in reminders]
        known = self._rows.known(ids, first.date().isoformat(), last.date().isoformat()) if ids else []
        return Batch(users, reminders, tokens, known)

    @contextmanager
    def _writer(self) -> Iterator[Callable[[Changes, datetime], None]]:
        """Write one batch while the next one is worked out; never more than one ahead, so memory stays bounded."""
        pending: list[Future[None]] = []
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan-writer") as pool:

            def write(changes: Changes, started: datetime) -> None:
                if pending:
                    pending.pop().result()
                pending.append(pool.submit(self._write, changes, started))

            yield write
            if pending:
                pending.pop().result()

    def _write(self, changes: Changes, started: datetime) -> None:
        self._count(changes)
        # An edited time is another occurrence: the new one is inserted before the old one goes.
        in_the_way = self._insert(changes.inserts)
        self._rename(changes, started)
        self._move(changes.moves, started)
        for reason, ids in changes.deletes.items():
            self._report.deleted += self._rows.apply(moves.soft_delete(ids, reason, started)) or 0
        if in_the_way:
            self._delete_orphans(in_the_way, changes, started)
            # What stood at the same instant may have been a row of a reminder that is gone.
            in_the_way = self._insert(in_the_way)
        self._report.skipped[SkipReason.SAME_INSTANT] += len(in_the_way)

    def _delete_orphans(self, rows: Sequence[Document], changes: Changes, started: datetime) -> None:
        """Delete what stands in the way of `rows` and belongs to a reminder that no longer exists."""
        standing = self._rows.standing_in_the_way(rows)
        orphans = [
            row["_id"]
            for row in standing
            if row.get("reminderId") is not None and id_key(row["reminderId"]) not in changes.reminder_keys
        ]
        if orphans:
            move = moves.soft_delete(orphans, DeletedReason.REMINDER_CHANGED, started)
            self._report.deleted += self._rows.apply(move) or 0

    def _count(self, changes: Changes) -> None:
        self._report.already += changes.already
        self._report.skipped.update(changes.skipped)

    def _insert(self, rows: list[Document]) -> list[Document]:
        result = self._rows.insert(rows)
        self._report.planned += len(result.inserted)
        self._report.already += result.already
        self._report.errors += len(result.errors)
        for category, count in Counter(rows[position]["category"] for position in result.inserted).items():
            self._metrics.planned.labels(category).inc(count)
        for position, text in result.errors:
            reminder_id = rows[position]["reminderId"] if position >= 0 else None
            self._log.error("insert_failed", reminder_id=str(reminder_id), error=text)
        return result.same_instant

    def _rename(self, changes: Changes, started: datetime) -> None:
        for row_id, category, label in changes.renames:
            if self._rows.apply(moves.rename(row_id, category, label, started)) is None:
                self._rows.apply(moves.supersede(row_id, None))

    def _move(self, wanted: Sequence[PlannedMove], started: datetime) -> None:
        """Move rows in an order in which none goes where another one still stands; what collides is superfluous."""
        later = sorted((move for move in wanted if move.placement.scheduled_at > move.was), key=_target, reverse=True)
        earlier = sorted((move for move in wanted if move.placement.scheduled_at <= move.was), key=_target)
        for move in [*later, *earlier]:
            moved = self._rows.apply(moves.move_in_place(move.row_id, move.placement, None, planned_at=started))
            if moved is None:
                self._rows.apply(moves.supersede(move.row_id, None))
            self._report.moved += moved or 0

    def _show(self, changes: Changes, show: Callable[[Document], None]) -> None:
        self._count(changes)
        for row in changes.inserts:
            show(row)
        self._report.planned += len(changes.inserts)
        self._report.moved += len(changes.moves)
        self._report.deleted += sum(map(len, changes.deletes.values()))

    def _complain(self, collection: str, document_id: Any, reason: SkipReason, detail: str) -> None:
        self._log.warning(
            "skipped", collection=collection, document_id=str(document_id), reason=reason.value, detail=detail
        )


def _target(move: PlannedMove) -> datetime:
    return move.placement.scheduled_at
