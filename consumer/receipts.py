"""Receipts: a frame of sent rows rings, and Expo is asked what became of their tickets.

A receipt that is not there yet is asked for again, each time after as long again, until it is given up: the message
was taken and nobody ever disowned it. Each answer is written only to the row that still bears the ticket asked for.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from consumer.domain.backoff import receipt_ms
from consumer.domain.breaker import Breaker
from consumer.domain.outcomes import Accepted, CredentialsRefused, Refused
from consumer.expo.client import ExpoClient, Receipt
from consumer.permits import Permits
from consumer.rings import Rings
from consumer.settlement import Ending, Settler
from shared.adapters.mongo.client import Document
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.mongo.wire_ids import from_wire
from shared.adapters.stomp.bell import Bell
from shared.domain import moves
from shared.domain.decision import grace_end
from shared.domain.envelope import Frame
from shared.domain.policy import Policies
from shared.domain.states import Reason, Status
from shared.runtime.clock import ServerClock, boottime
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics

_MILLISECOND = timedelta(milliseconds=1)
_RETRY = timedelta(seconds=30)
_SOON = timedelta(seconds=1)


@dataclass(frozen=True)
class ReceiptParts:
    """What the receipts stage works with."""

    store: MessageStore
    settler: Settler
    expo: ExpoClient
    permits: Permits
    breaker: Breaker
    bell: Bell
    clock: ServerClock
    metrics: Metrics


@dataclass(frozen=True)
class ReceiptRules:
    """BATCH_SIZE, RECEIPT_DELAY_SECONDS, RECEIPT_GIVE_UP_SECONDS and what each category allows."""

    batch_size: int
    delay: timedelta
    give_up: timedelta
    policies: Policies


class ReceiptStage:
    """Handles frames of kind `receipts`. Safe for many threads."""

    def __init__(self, parts: ReceiptParts, rules: ReceiptRules) -> None:
        self._parts, self._rules = parts, rules
        self._log = get_logger("receipts")

    def handle(self, frame: Frame) -> None:
        """Ask for the receipts of the frame's rows and settle what is answered.

        Raises:
            Unavailable: not everything is done; handle it again.
            Stopping: nothing was begun.

        """
        rings = Rings(frame.category, self._rules.batch_size)
        # A row whose next look lies ahead has another frame on its way; following this one too would double its looks.
        due = self._parts.clock.now() + _SOON
        rows = [row for row in self._parts.store.sent([from_wire(one) for one in frame.ids]) if _is_due(row, due)]
        if rows:
            answers = self._ask(rows)
            if answers is None:
                rings.ask_receipts_at([row["_id"] for row in rows], self._parts.clock.now() + _RETRY)
            else:
                self._settle(rows, answers, rings)
        rings.publish(self._parts.bell, self._parts.clock.now())

    def _ask(self, rows: Sequence[Document]) -> Mapping[str, Receipt] | None:
        with self._parts.permits.permit(0):
            answer = self._parts.expo.receipts([row["ticketId"] for row in rows])
        if isinstance(answer, list):
            self._parts.metrics.requests.labels("receipts", "Answered").inc()
            self._parts.breaker.succeeded()
            return {receipt.ticket_id: receipt for receipt in answer}
        self._parts.metrics.requests.labels("receipts", type(answer).__name__).inc()
        self._log.warning("receipts_not_read", outcome=type(answer).__name__, rows=len(rows))
        if isinstance(answer, CredentialsRefused):
            self._parts.breaker.trip(boottime(), answer.why)
        return None

    def _settle(self, rows: Sequence[Document], answers: Mapping[str, Receipt], rings: Rings) -> None:
        confirmed: dict[Any, str] = {}
        refused: dict[Refused, list[Document]] = defaultdict(list)
        missing: list[Document] = []
        for row in rows:
            receipt = answers.get(row["ticketId"])
            if receipt is None:
                missing.append(row)
            elif isinstance(receipt.outcome, Accepted):
                confirmed[row["_id"]] = row["ticketId"]
            else:
                assert isinstance(receipt.outcome, Refused)
                refused[receipt.outcome].append(row)
        endings: list[Ending] = [partial(moves.confirm, confirmed)] if confirmed else []
        endings += self._failures(refused, rings)
        self._parts.settler.settle(endings, judged=len(rows) - len(missing))
        self._look_again(missing, rings)
        for result, count in (("ok", len(confirmed)), ("missing", len(missing))):
            self._parts.metrics.receipts.labels(result).inc(count)

    def _failures(self, refused: Mapping[Refused, Sequence[Document]], rings: Rings) -> list[Ending]:
        endings: list[Ending] = []
        for outcome, rows in refused.items():
            self._parts.metrics.receipts.labels(outcome.reason.value).inc(len(rows))
            gone = self._disown(rows, rings) if outcome.passing else set()
            failed = _tickets(row for row in rows if row["_id"] not in gone)
            if failed:
                endings.append(partial(moves.receipt_failed, failed, outcome.reason))
        return endings

    def _disown(self, rows: Sequence[Document], rings: Rings) -> set[Any]:
        """Put back what was definitely not delivered, once and within its grace; which rows went back."""
        now = self._parts.clock.now()
        gone = set()
        for row in rows:
            if row.get("disownedTicketId") is not None or now >= self._grace_end(row):
                continue
            move = moves.disown({row["_id"]: row["ticketId"]}, _RETRY // _MILLISECOND)
            if self._parts.store.apply_unless_taken(move):
                gone.add(row["_id"])
                rings.ring_at([row["_id"]], now + _RETRY)
        return gone

    def _grace_end(self, row: Document) -> datetime:
        policy = self._rules.policies.get(row["category"])
        return grace_end(row, policy) if policy else datetime.fromtimestamp(0, UTC)

    def _look_again(self, rows: Sequence[Document], rings: Rings) -> None:
        now = self._parts.clock.now()
        given_up = [row for row in rows if now - row["sentAt"] >= self._rules.give_up]
        if given_up:
            self._parts.store.apply(moves.leave_unconfirmed(_tickets(given_up)))
            for row in given_up:
                self._parts.metrics.resolved.labels(
                    row["category"], Status.SUCCESS.value, Reason.UNCONFIRMED.value
                ).inc()
        waits: dict[int, list[Document]] = defaultdict(list)
        for row in rows:
            if row not in given_up:
                waits[receipt_ms((now - row["sentAt"]) // _MILLISECOND, self._rules.delay // _MILLISECOND)].append(row)
        for pause_ms, group in waits.items():
            self._parts.store.apply(moves.look_again(_tickets(group), pause_ms))
            rings.ask_receipts_at([row["_id"] for row in group], now + pause_ms * _MILLISECOND)


def _is_due(row: Document, now: datetime) -> bool:
    next_look = row.get("nextAttemptAt")
    return not isinstance(next_look, datetime) or next_look <= now


def _tickets(rows: Iterable[Document]) -> dict[Any, str]:
    return {row["_id"]: row["ticketId"] for row in rows}
