"""Sweep: the backstop that needs no broker message to have survived.

It adopts rows of other programs, ends what nobody will send any more, rings again what rang in vain, puts on the
broker what has entered its window, and settles sent rows whose receipts never came. The verdict on an overdue row is
the consumer's own, by the same pure function, from everything read again. Rows under a live claim are left alone.
Two sweeps at once do the same work twice and change nothing twice.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from creator.adopt import Adopter
from creator.domain.foreign import is_whole
from creator.ringing import Document, Ringer
from shared.adapters.errors import BrokerUnavailable
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.circumstances import read_circumstances
from shared.adapters.mongo.relocation import Relocator
from shared.domain import moves
from shared.domain.decision import Decision, GiveUp, Miss, Postpone, Reject, Rules, decide, held_until, unsendable
from shared.domain.endings import ending_of
from shared.domain.policy import Policies
from shared.domain.states import Reason, Status
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

CHUNK = 2_000


@dataclass(frozen=True)
class SweepRules:
    """The settings a sweep works by; durations as in the settings of the same names."""

    policies: Policies
    decision: Mapping[str, Rules]
    interval: timedelta
    window: timedelta
    receipt_give_up: timedelta


@dataclass(frozen=True)
class SweepParts:
    """What a sweep works with."""

    backlog: Backlog
    audience: Audience
    relocator: Relocator
    ringer: Ringer


class Sweeper:
    """One pass over everything that should have happened by now."""

    def __init__(self, parts: SweepParts, rules: SweepRules, metrics: Metrics) -> None:
        self._backlog, self._audience = parts.backlog, parts.audience
        self._relocator, self._ringer = parts.relocator, parts.ringer
        self._rules, self._metrics = rules, metrics
        self._adopter = Adopter(parts.backlog, parts.audience, rules.policies)
        self._broker_failure: BrokerUnavailable | None = None
        self._log = get_logger("sweep")

    def run(self, now: datetime) -> Counter[str]:
        """Sweep at `now` (the database's clock); what was done, by action and number of rows.

        Raises:
            BrokerUnavailable: what needed no broker has been done all the same.

        """
        done: Counter[str] = Counter()
        for rows in self._backlog.foreign(CHUNK):
            done["adopted"] += self._adopter.adopt(rows, now)
        for rows in self._backlog.untimed(CHUNK):
            for row in rows:
                done["ended"] += self._end("unknown", unsendable(row), [row["_id"]])
        self._broker_failure = None
        for rows in self._backlog.overdue(now, now - self._rules.interval, CHUNK):
            kept = self._end_or_keep(rows, now, done)
            done["rung_again"] += self._ring(self._ringer.ring, kept)
        self._settle_receipts(now, done)
        for rows in self._backlog.not_enqueued(now + self._rules.window, CHUNK):
            done["enqueued"] += self._ring(self._ringer.ring, rows)
        for action, count in done.items():
            self._metrics.swept.labels(action).inc(count)
        if any(done.values()):
            self._log.info("swept", **{action: count for action, count in done.items() if count})
        if self._broker_failure is not None:
            raise self._broker_failure
        return done

    def _ring(self, ring: Callable[[Sequence[Document]], int], rows: Sequence[Document]) -> int:
        """Ring rows while the broker answers; without it the sweep still ends what needs no broker."""
        if self._broker_failure is not None or not rows:
            return 0
        try:
            return ring(rows)
        except BrokerUnavailable as error:
            self._broker_failure = error
            return 0

    def _end_or_keep(self, rows: Sequence[Document], now: datetime, done: Counter[str]) -> list[Document]:
        """End what can be ended without a consumer; the rows that must be rung again."""
        foreign = [row for row in rows if not is_whole(row)]
        done["adopted"] += self._adopter.adopt(foreign, now)
        free = [row for row in rows if is_whole(row) and not _is_held(row, now)]
        keep: list[Document] = []
        endings: dict[tuple[str, Decision], list[Any]] = defaultdict(list)
        for row, known in zip(free, read_circumstances(self._audience, free), strict=True):
            rules = self._rules.decision.get(str(row.get("category")))
            if rules is None:
                endings["unknown", unsendable(row)].append(row["_id"])
                continue
            verdict = decide(row, known, rules, now)
            if isinstance(verdict, Miss | Reject | GiveUp):
                endings[row["category"], verdict].append(row["_id"])
            elif isinstance(verdict, Postpone):
                done[self._relocator.relocate(row, verdict.placement, None).value] += 1
            else:
                keep.append(row)
        for (category, verdict), ids in endings.items():
            done["ended"] += self._end(category, verdict, ids)
        return keep

    def _end(self, category: str, verdict: Decision, ids: Sequence[Any]) -> int:
        ending = ending_of(verdict, ids, None)
        ended = self._backlog.apply(ending.move)
        self._metrics.resolved.labels(category, ending.status.value, ending.reason.value).inc(ended)
        self._log.info("ended", status=ending.status.value, reason=ending.reason.value, rows=ended)
        return ended

    def _settle_receipts(self, now: datetime, done: Counter[str]) -> None:
        for rows in self._backlog.awaiting_receipt(now, now - self._rules.interval, CHUNK):
            too_old = now - self._rules.receipt_give_up
            given_up = {row["_id"]: row["ticketId"] for row in rows if row["sentAt"] <= too_old}
            if given_up:
                done["unconfirmed"] += self._backlog.apply(moves.leave_unconfirmed(given_up))
                for category, count in Counter(
                    str(row.get("category")) for row in rows if row["_id"] in given_up
                ).items():
                    self._metrics.resolved.labels(category, Status.SUCCESS.value, Reason.UNCONFIRMED.value).inc(count)
            rest = [row for row in rows if row["_id"] not in given_up]
            done["receipts_rung"] += self._ring(self._ringer.ring_receipts, rest)


def _is_held(row: Document, now: datetime) -> bool:
    claimed_until = held_until(row)
    return claimed_until is not None and claimed_until > now
