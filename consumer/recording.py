"""Record: what the outcome of one request means for each of its rows, written under that request's attempt."""

import contextlib
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from consumer.domain.backoff import retry_ms
from consumer.domain.breaker import Breaker
from consumer.domain.outcomes import (
    Accepted,
    Answered,
    CredentialsRefused,
    ItemsInvalid,
    MessageOutcome,
    NotSent,
    OutcomeUnknown,
    ProjectsMixed,
    Refused,
    RequestOutcome,
    TooMany,
)
from consumer.expo.payload import ExpoMessage
from consumer.judge import Outgoing
from consumer.settlement import Ending, Settler
from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.client import Document
from shared.adapters.mongo.limiter import Limiter
from shared.adapters.mongo.messages import MessageStore
from shared.domain import moves
from shared.domain.decision import definite_attempts
from shared.domain.states import Reason
from shared.runtime.clock import boottime
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

_CREDENTIALS_PAUSE = timedelta(seconds=30)
_MILLISECOND = timedelta(milliseconds=1)
_SLOW_DOWN_SECONDS = 1.0


@dataclass(frozen=True)
class Batch:
    """The rows of one request, in its order, and the attempt they bear."""

    attempt: str
    category: str
    items: Sequence[tuple[Outgoing, ExpoMessage]]

    @property
    def ids(self) -> list[Any]:
        """The rows' ids."""
        return [item.row["_id"] for item, _ in self.items]


@dataclass
class Aftermath:
    """What must be put on the broker before the frame may be acknowledged: delays count from then."""

    sent: list[Any] = field(default_factory=list)
    again: list[tuple[Any, timedelta]] = field(default_factory=list)

    def add(self, other: "Aftermath") -> None:
        """Take over what another one holds."""
        self.sent += other.sent
        self.again += other.again

    def ring_again(self, ids: Sequence[Any], delay: timedelta) -> None:
        """Ring these rows once more after `delay`."""
        self.again += [(row_id, delay) for row_id in ids]


@dataclass(frozen=True)
class RecordRules:
    """MAX_ATTEMPTS, RECEIPT_DELAY_SECONDS, and the pause before a re-send."""

    max_attempts: int
    receipt_delay: timedelta
    resend_pause: timedelta


class Recorder:
    """Writes outcomes. An answer may be recorded for as long as the row bears its attempt, even after the lease."""

    def __init__(
        self,
        store: MessageStore,
        settler: Settler,
        limiter: Limiter,
        breaker: Breaker,
        rules: RecordRules,
        metrics: Metrics,
    ) -> None:
        self._store, self._settler, self._limiter = store, settler, limiter
        self._breaker, self._rules, self._metrics = breaker, rules, metrics
        self._log = get_logger("record")

    def record(self, batch: Batch, outcome: RequestOutcome, aftermath: Aftermath) -> list[list[Outgoing]]:
        """Write the outcome of a request; the groups that must be asked for again, each in a request of its own.

        Raises:
            DatabaseUnavailable: some of it may be written; write it again.

        """
        match outcome:
            case Answered(outcomes):
                self._answered(batch, outcomes, aftermath)
            case NotSent(why):
                self._log.warning("not_sent", why=why, rows=len(batch.items))
                self._retry(batch, [item.row for item, _ in batch.items], Reason.RETRIES_EXHAUSTED, aftermath)
            case OutcomeUnknown(why):
                self._unknown(batch, batch.ids, why, aftermath)
            case CredentialsRefused(why):
                self._log.error("credentials_refused", why=why, rows=len(batch.items))
                self._store.apply(moves.record_unmade(batch.attempt, batch.ids, _CREDENTIALS_PAUSE // _MILLISECOND))
                aftermath.ring_again(batch.ids, _CREDENTIALS_PAUSE)
            case _:
                return self._regroup(batch, outcome, aftermath)
        return []

    def hear(self, outcome: RequestOutcome) -> None:
        """Let breaker and limiter hear of the outcome, once."""
        match outcome:
            case NotSent(_, True):
                self._slow_down()
            case _:
                self._tell_breaker(outcome)
        self._metrics.breaker_open.set(self._breaker.state == "open")

    def _slow_down(self) -> None:
        with contextlib.suppress(DatabaseUnavailable):
            self._limiter.pause(_SLOW_DOWN_SECONDS)

    def _tell_breaker(self, outcome: RequestOutcome) -> None:
        match outcome:
            case CredentialsRefused(why):
                self._breaker.trip(boottime(), why)
            case OutcomeUnknown(why) | NotSent(why):
                self._breaker.failed(boottime(), why)
            case _:
                self._breaker.succeeded()

    def _answered(self, batch: Batch, outcomes: Sequence[MessageOutcome], aftermath: Aftermath) -> None:
        tickets: dict[Any, str] = {}
        unclear: list[Any] = []
        refused: dict[Refused, list[Document]] = defaultdict(list)
        for (item, _), outcome in zip(batch.items, outcomes, strict=True):
            match outcome:
                case Accepted(ticket_id):
                    tickets[item.row["_id"]] = ticket_id
                case Refused():
                    refused[outcome].append(item.row)
                case _:
                    unclear.append(item.row["_id"])
        if tickets:
            self._sent(batch, tickets, aftermath)
        if unclear:
            self._unknown(batch, unclear, "no answer for this message", aftermath)
        self._refused(batch, refused, aftermath)

    def _sent(self, batch: Batch, tickets: Mapping[Any, str], aftermath: Aftermath) -> None:
        receipt_delay_ms = self._rules.receipt_delay // _MILLISECOND
        recorded = self._store.apply(moves.record_sent(batch.attempt, tickets, receipt_delay_ms))
        if recorded != len(tickets):
            self._log.error("answers_without_row", missing=len(tickets) - recorded)
        self._metrics.accepted.labels(batch.category).inc(recorded)
        aftermath.sent += tickets
        self._log.info("sent", attempt_id=batch.attempt, rows=recorded)

    def _refused(self, batch: Batch, refused: Mapping[Refused, Sequence[Document]], aftermath: Aftermath) -> None:
        endings: list[Ending] = []
        for outcome, rows in refused.items():
            if outcome.passing:
                self._retry(batch, rows, outcome.reason, aftermath)
            else:
                endings.append(_failing(batch.attempt, rows, outcome.reason))
        self._settler.settle(endings, judged=len(batch.items))

    def _retry(self, batch: Batch, rows: Sequence[Document], spent_reason: Reason, aftermath: Aftermath) -> None:
        """Try again later what may still be tried; end the rest for `spent_reason`."""
        spent = [row for row in rows if definite_attempts(row) + 1 >= self._rules.max_attempts]
        by_attempts: dict[int, list[Any]] = defaultdict(list)
        for row in rows:
            if row not in spent:
                by_attempts[definite_attempts(row) + 1].append(row["_id"])
        for attempts, ids in by_attempts.items():
            pause_ms = retry_ms(attempts, random.random())  # noqa: S311 - jitter, not a secret
            self._store.apply(moves.record_refused(batch.attempt, ids, pause_ms))
            aftermath.ring_again(ids, timedelta(milliseconds=pause_ms))
        if spent:
            self._settler.settle([_failing(batch.attempt, spent, spent_reason)], judged=0)

    def _unknown(self, batch: Batch, ids: Sequence[Any], why: str, aftermath: Aftermath) -> None:
        self._log.warning("outcome_unknown", why=why, attempt_id=batch.attempt, message_ids=[str(one) for one in ids])
        self._metrics.unknown_outcomes.inc(len(ids))
        self._store.apply(moves.record_unknown(batch.attempt, ids, self._rules.resend_pause // _MILLISECOND))
        aftermath.ring_again(ids, self._rules.resend_pause)

    def _regroup(self, batch: Batch, outcome: RequestOutcome, aftermath: Aftermath) -> list[list[Outgoing]]:
        """The request was refused whole for what some of its messages are: send the others without them."""
        groups = _regrouped(batch, outcome)
        invalid: list[Document] = []
        if isinstance(outcome, ItemsInvalid):
            invalid = [item.row for index, (item, _) in enumerate(batch.items) if index in outcome.indexes]
            self._settler.settle(
                [_failing(batch.attempt, invalid, Reason.INVALID_PAYLOAD)] if invalid else [],
                judged=len(batch.items),
            )
        if not invalid and len(groups) < 2:  # noqa: PLR2004 - the same request once more would end the same
            self._retry(batch, [item.row for item, _ in batch.items], Reason.RETRIES_EXHAUSTED, aftermath)
            return []
        rest = [item.row["_id"] for group in groups for item in group]
        if rest:
            self._store.apply(moves.reopen(batch.attempt, rest))
        return groups


def _regrouped(batch: Batch, outcome: RequestOutcome) -> list[list[Outgoing]]:
    items = [item for item, _ in batch.items]
    match outcome:
        case ItemsInvalid(indexes):
            groups = [[item for index, item in enumerate(items) if index not in indexes]]
        case ProjectsMixed(projects):
            by_project: dict[str | None, list[Outgoing]] = defaultdict(list)
            for item in items:
                by_project[projects.get(item.send.token.token)].append(item)
            groups = list(by_project.values())
        case _:
            assert isinstance(outcome, TooMany)
            half = (len(items) + 1) // 2
            groups = [items[:half], items[half:]]
    return [group for group in groups if group]


def _failing(attempt: str, rows: Sequence[Document], reason: Reason) -> Ending:
    return partial(moves.record_failed, attempt, [row["_id"] for row in rows], reason)
