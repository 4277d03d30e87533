"""Judge: what to do with each row of a claim, from everything read again just now, and do what needs no request."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from consumer.rings import SOON
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.circumstances import read_circumstances
from shared.adapters.mongo.client import Document
from shared.adapters.mongo.messages import Claim, MessageStore
from shared.adapters.mongo.relocation import Relocated, Relocator
from shared.domain import moves
from shared.domain.decision import Decision, Hold, Miss, Postpone, Rules, Send, decide, unsendable
from shared.domain.endings import ending_of
from shared.domain.states import Reason, Status
from shared.runtime.logs import get_logger
from shared.runtime.metrics import Metrics


@dataclass(frozen=True)
class Outgoing:
    """A claimed row that shall be sent, and how."""

    row: Document
    send: Send


@dataclass
class Judgement:
    """What is left to do after judging: rows to send, and rows to ring again at an instant."""

    outgoing: list[Outgoing] = field(default_factory=list)
    ring_again: list[tuple[Any, datetime]] = field(default_factory=list)


RulesOf = Mapping[str, Rules]
"""The rules of each category."""


class Judge:
    """Takes the decision of `shared.domain.decision` for every row, and carries out all but the sending."""

    def __init__(
        self,
        store: MessageStore,
        audience: Audience,
        relocator: Relocator,
        rules: Mapping[str, Rules],
        metrics: Metrics,
    ) -> None:
        self._store, self._audience, self._relocator = store, audience, relocator
        self._rules, self._metrics = rules, metrics
        self._log = get_logger("judge")

    def judge(self, claim: Claim) -> Judgement:
        """Judge all rows of `claim` at the moment it was taken."""
        judgement = Judgement()
        endings: dict[Decision, list[Document]] = defaultdict(list)
        held: list[Any] = []
        for row, known in zip(claim.rows, read_circumstances(self._audience, claim.rows), strict=True):
            rules = self._rules.get(str(row.get("category")))
            verdict = decide(row, known, rules, claim.taken_at) if rules else unsendable(row)
            if isinstance(verdict, Send):
                if self._follows(row, verdict, claim.owner):
                    judgement.outgoing.append(Outgoing(row, verdict))
            elif isinstance(verdict, Postpone):
                self._postpone(row, verdict, claim, judgement)
            elif isinstance(verdict, Hold):
                held.append(row["_id"])
                judgement.ring_again.append((row["_id"], verdict.until))
            else:
                endings[verdict].append(row)
        for verdict, rows in endings.items():
            self.end(verdict, rows, claim.owner)
        if held:
            self._store.apply(moves.release(held, claim.owner))
        self._refresh(judgement.outgoing, claim.owner)
        return judgement

    def end(self, verdict: Decision, rows: Sequence[Document], owner: str) -> None:
        """End rows of one frame, and so of one category, without a request."""
        status, reason, move = ending_of(verdict, [row["_id"] for row in rows], owner)
        ended = self._store.apply(move)
        category = str(rows[0].get("category"))
        label = category if category in self._rules else "unknown"
        self._metrics.resolved.labels(label, status.value, reason.value).inc(ended)
        self._log.info("ended", status=status.value, reason=reason.value, message_ids=[str(row["_id"]) for row in rows])

    def _follows(self, row: Document, verdict: Send, owner: str) -> bool:
        """Point the row at its device's current token; False if another row is due there at the same instant."""
        if verdict.token.id == row.get("notificationTokenId"):
            return True
        moved = self._store.apply_unless_taken(moves.retarget(row["_id"], verdict.token.id, owner))
        if moved is None:
            self.end(Miss(Reason.SUPERSEDED), [row], owner)
        return bool(moved)

    def _postpone(self, row: Document, verdict: Postpone, claim: Claim, judgement: Judgement) -> None:
        result = self._relocator.relocate(row, verdict.placement, claim.owner)
        if result is Relocated.SUPERSEDED:
            self._metrics.resolved.labels(row["category"], Status.IS_MISSED.value, Reason.SUPERSEDED.value).inc()
        elif result is Relocated.HELD:
            # What stands in its way is in other hands: it is free again in a moment.
            self._store.apply(moves.release([row["_id"]], claim.owner))
            judgement.ring_again.append((row["_id"], claim.taken_at + SOON))

    def _refresh(self, outgoing: Sequence[Outgoing], owner: str) -> None:
        """Keep the words that are really sent, where the reminder was edited since it was planned."""
        each = []
        for item in outgoing:
            content = item.send.content
            words = {"title": content.title, "body": content.body, "data": dict(content.data)}
            is_ours = item.row.get("reminderId") is not None
            if is_ours and any(item.row.get(name) != value for name, value in words.items()):
                each.append(moves.refresh_content(item.row["_id"], words, owner))
        self._store.apply_each(each)


def by_project(outgoing: Sequence[Outgoing]) -> list[list[Outgoing]]:
    """Groups of one Expo project each, since a request may hold only one."""
    groups: dict[Hashable, list[Outgoing]] = defaultdict(list)
    for item in outgoing:
        groups[item.send.token.project].append(item)
    return list(groups.values())
