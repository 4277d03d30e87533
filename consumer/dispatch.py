"""Dispatch: mark, post, record. One HTTP request at a time, and what its answer says about each of its rows."""

import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from consumer.domain.outcomes import RequestOutcome
from consumer.expo.client import ExpoClient
from consumer.expo.payload import Envelope, ExpoMessage, build_message, collapse_id
from consumer.judge import Judge, Outgoing, by_project
from consumer.permits import Permits
from consumer.recording import Aftermath, Batch, Recorder
from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.messages import Claim, MessageStore
from shared.adapters.mongo.wire_ids import to_text
from shared.domain import moves
from shared.domain.decision import Reject, grace_end
from shared.domain.policy import Policies
from shared.domain.states import Reason
from shared.runtime.clock import boottime
from shared.runtime.lifecycle import Shutdown
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics
from shared.runtime.settings import MARK_MARGIN_SECONDS

# What was read about a user may be this old when the request is made.
STALE_SECONDS = 5.0
# Rows whose request could not be made ring again after this: never at once, which would spin.
_AGAIN = timedelta(seconds=1)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0


@dataclass(frozen=True)
class DispatchParts:
    """What a dispatcher works with."""

    store: MessageStore
    expo: ExpoClient
    permits: Permits
    recorder: Recorder
    judge: Judge
    shutdown: Shutdown
    metrics: Metrics


@dataclass(frozen=True)
class DispatchRules:
    """The lease of a claim and the total time-out of a request, in seconds; what each category allows."""

    lease_seconds: float
    request_seconds: float
    policies: Policies

    @property
    def need(self) -> timedelta:
        """How much of the lease a request must find left."""
        return timedelta(seconds=self.request_seconds + MARK_MARGIN_SECONDS)


@dataclass(frozen=True)
class Held:
    """A claim, and two instants on this machine's boottime clock: just before it was made, and when it was judged."""

    claim: Claim
    asked_at: float
    judged_at: float


class Dispatcher:
    """Sends judged rows, in as few requests as Expo allows."""

    def __init__(self, parts: DispatchParts, rules: DispatchRules) -> None:
        self._parts, self._rules = parts, rules
        self._log = get_logger("dispatch")

    def dispatch(self, outgoing: Sequence[Outgoing], held: Held) -> Aftermath:
        """Send all; what must be rung afterwards. Every further request for a row is a new attempt with a new mark."""
        aftermath = Aftermath()
        groups = deque(by_project(outgoing))
        while groups:
            ready = self._addressed(groups.popleft(), held)
            if not ready:
                continue
            batch = self._marked(ready, held, aftermath)
            if not batch.items:
                continue
            self._parts.permits.await_turn(len(batch.items))
            if not self._in_time(batch, held, aftermath):
                continue
            self._observe_lateness(batch, held)
            with self._parts.metrics.request_seconds.time():
                outcome = self._parts.expo.send([message for _, message in batch.items])
            self._parts.metrics.requests.labels("send", type(outcome).__name__).inc()
            self._parts.recorder.hear(outcome)
            groups.extend(self._record(batch, outcome, aftermath))
        return aftermath

    def _record(self, batch: Batch, outcome: RequestOutcome, aftermath: Aftermath) -> list[list[Outgoing]]:
        """Write down what is known, for as long as it takes: given up, it would be an unknown outcome.

        Writing it twice changes nothing, and it is allowed after the lease too, while the rows bear this attempt.
        """
        pause = _FIRST_PAUSE
        while True:
            mine = Aftermath()
            try:
                groups = self._parts.recorder.record(batch, outcome, mine)
            except DatabaseUnavailable as error:
                self._log.warning("answer_not_recorded_yet", attempt_id=batch.attempt, error=str(error))
                if self._parts.shutdown.seconds_left <= 0:
                    raise
                self._parts.shutdown.pause(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                aftermath.add(mine)
                return groups

    def _addressed(self, group: Sequence[Outgoing], held: Held) -> list[tuple[Outgoing, ExpoMessage]]:
        """The rows with their messages; what no message can hold is ended here."""
        ready, too_big = [], []
        for item in group:
            message = self._message(item)
            if message is None:
                too_big.append(item.row)
            else:
                ready.append((item, message))
        if too_big:
            self._parts.judge.end(Reject(Reason.MESSAGE_TOO_BIG), too_big, held.claim.owner)
        return ready

    def _message(self, item: Outgoing) -> ExpoMessage | None:
        policy = self._rules.policies[item.row["category"]]
        envelope = Envelope(
            to=item.send.token.token,
            expires_at=grace_end(item.row, policy),
            message_id=to_text(item.row["_id"]),
            collapse_id=collapse_id(item.row),
        )
        return build_message(envelope, item.send.content, policy)

    def _marked(self, ready: list[tuple[Outgoing, ExpoMessage]], held: Held, aftermath: Aftermath) -> Batch:
        attempt = uuid.uuid4().hex
        ids = [item.row["_id"] for item, _ in ready]
        category = ready[0][0].row["category"]
        policy = self._rules.policies[category]
        need_ms = self._rules.need // timedelta(milliseconds=1)
        mark = moves.mark(ids, held.claim.owner, attempt, need_ms=need_ms, max_unresolved=policy.max_unresolved)
        marked = self._parts.store.mark(mark, ids, attempt)
        lost = [row_id for row_id in ids if row_id not in marked]
        if lost:
            self._parts.metrics.claims_lost.inc(len(lost))
            self._log.warning("claim_lost", message_ids=[str(row_id) for row_id in lost])
            self._parts.store.apply(moves.release(lost, held.claim.owner))
            aftermath.ring_again(lost, _AGAIN)
        return Batch(attempt, category, [pair for pair in ready if pair[0].row["_id"] in marked])

    def _in_time(self, batch: Batch, held: Held, aftermath: Aftermath) -> bool:
        """The last look at a clock that runs on while a process is stopped, directly before the request."""
        now = boottime()
        lease_left = held.asked_at + self._rules.lease_seconds - now
        if lease_left > self._rules.need.total_seconds() and now - held.judged_at <= STALE_SECONDS:
            return True
        self._log.warning("request_not_made", rows=len(batch.items), lease_left_s=round(lease_left, 1))
        self._parts.store.apply(moves.record_unmade(batch.attempt, batch.ids, 0))
        aftermath.ring_again(batch.ids, _AGAIN)
        return False

    def _observe_lateness(self, batch: Batch, held: Held) -> None:
        now = held.claim.taken_at + timedelta(seconds=boottime() - held.asked_at)
        for item, _ in batch.items:
            self._parts.metrics.lateness.observe(max(0.0, (now - item.row["scheduledAt"]).total_seconds()))
