"""Send: a frame rings, and each of its rows that still waits is decided anew, sent, and recorded.

The story of one frame, in the order that the promises need: look which rows still wait, get a permit, claim, read
everything again and judge, mark, look at the clock, post, record, put on the broker what must ring again. Only then is
the frame acknowledged, by the caller. Doing all of it twice sends nothing twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from consumer.dispatch import Dispatcher, Held
from consumer.domain.breaker import Breaker
from consumer.judge import Judge
from consumer.permits import Permits, Stopping
from consumer.rings import SOON, Rings
from shared.adapters.mongo.client import Document
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.mongo.wire_ids import from_wire
from shared.adapters.stomp.bell import Bell
from shared.domain import moves
from shared.domain.decision import due_at, held_until, unresolved_attempts
from shared.domain.envelope import Frame
from shared.domain.ids import id_key
from shared.runtime.clock import ServerClock, boottime
from shared.runtime.lifecycle import Shutdown

# A row that looks free but resists the claim is in somebody else's hands, or its clock is a hair ahead.
_CLAIM_ROUNDS = 3
_LEASE_MARGIN = timedelta(seconds=1)


@dataclass(frozen=True)
class SendParts:
    """What the send stage works with."""

    store: MessageStore
    judge: Judge
    dispatcher: Dispatcher
    permits: Permits
    breaker: Breaker
    bell: Bell
    clock: ServerClock


@dataclass(frozen=True)
class SendRules:
    """CLAIM_SECONDS, BATCH_SIZE and RECEIPT_DELAY_SECONDS."""

    lease: timedelta
    batch_size: int
    receipt_delay: timedelta


class SendStage:
    """Handles frames of kind `send`. Safe for many threads."""

    def __init__(self, parts: SendParts, rules: SendRules, shutdown: Shutdown) -> None:
        self._parts, self._rules, self._shutdown = parts, rules, shutdown

    def handle(self, frame: Frame) -> None:
        """Do everything that the frame asks for.

        Raises:
            Undecodable: ids that are no ids (as ValueError).
            Unavailable: not everything is done; handle it again.
            Stopping: nothing was begun.

        """
        rings = Rings(frame.category, self._rules.batch_size)
        ids = [from_wire(one) for one in frame.ids]
        # Usually all of them wait and are due; only if not is a closer look worth its price.
        all_wait = frame.due_at <= self._parts.clock.now() and self._parts.store.count_live(ids) == len(ids)
        waiting = self._let_pass(ids if all_wait else self._look(frame, ids, rings), rings)
        if waiting:
            with self._parts.permits.permit(len(waiting)):
                self._send(frame, waiting, rings)
        rings.publish(self._parts.bell, self._parts.clock.now())
        again = [row_id for row_id, _ in rings.again]
        if again:
            self._parts.store.apply(moves.enqueued(again))  # or each sweep would ring them once more

    def _look(self, frame: Frame, ids: Sequence[Any], rings: Rings) -> list[Any]:
        """Which rows can be claimed now, waiting a few seconds for those that ring a little early."""
        rows = self._parts.store.glance(ids)
        now = self._parts.clock.now()
        waiting, latest = [], now
        for row in rows:
            due, claimed_until = due_at(row) or now, held_until(row)  # without a time: judged, and ended, at once
            if claimed_until is not None and claimed_until > now:
                rings.ring_at([row["_id"]], claimed_until + _LEASE_MARGIN)
            elif due <= now + SOON:
                waiting.append(row["_id"])
                latest = max(latest, due)
            elif row.get("enqueuedAt") is not None:
                self._put_back(frame, row, due, rings)
        if latest > now and self._shutdown.wait((latest - self._parts.clock.now()).total_seconds()):
            raise Stopping
        return waiting

    def _put_back(self, frame: Frame, row: Document, due: datetime, rings: Rings) -> None:
        """Once, back to the broker; the second time it is left to the relay, for this broker does not keep time."""
        if frame.early:
            self._parts.store.apply(moves.unqueue([row["_id"]]))
        else:
            rings.early.append((row["_id"], due))

    def _let_pass(self, waiting: list[Any], rings: Rings) -> list[Any]:
        """All of them while Expo answers; one as a probe, or none, while it does not. The others ring later.

        A row that was perhaps sent already is a bad probe: its second request could end it in the middle of an outage.
        """
        if not waiting or self._parts.breaker.state == "closed":
            return waiting
        rows = self._parts.store.glance(waiting)
        fresh = [row["_id"] for row in rows if not unresolved_attempts(row)]
        allowance = self._parts.breaker.ask(boottime(), re_send=not fresh)
        if allowance.rows is None:
            return waiting
        chosen = (fresh or waiting)[: allowance.rows]
        chosen_keys = {id_key(one) for one in chosen}
        later = self._parts.clock.now() + max(timedelta(seconds=allowance.retry_in), SOON)
        rings.ring_at([one for one in waiting if id_key(one) not in chosen_keys], later)
        return chosen

    def _send(self, frame: Frame, waiting: list[Any], rings: Rings) -> None:
        for _ in range(_CLAIM_ROUNDS):
            asked_at = boottime()
            claim = self._parts.store.claim(waiting, self._rules.lease // timedelta(milliseconds=1))
            judgement = self._parts.judge.judge(claim)
            for row_id, due in judgement.ring_again:
                rings.ring_at([row_id], due)
            aftermath = self._parts.dispatcher.dispatch(judgement.outgoing, Held(claim, asked_at, boottime()))
            now = self._parts.clock.now()
            rings.ask_receipts_at(aftermath.sent, now + self._rules.receipt_delay)
            for row_id, delay in aftermath.again:
                rings.ring_at([row_id], now + delay)
            if len(claim.rows) == len(waiting):
                return
            claimed = {id_key(row["_id"]) for row in claim.rows}
            waiting = self._look(frame, [one for one in waiting if id_key(one) not in claimed], rings)
            if not waiting:
                return
        rings.ring_at(waiting, self._parts.clock.now() + SOON)
