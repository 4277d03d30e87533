"""Adopt: rows that another program inserted are made whole, one per device, or ended with a reason."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from creator.domain.foreign import Adoption, adoption, complaint, refusal, superseded
from creator.domain.rows import Document
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.domain import moves
from shared.domain.documents import BadDocument, Token, User, parse_token, parse_user
from shared.domain.policy import Policies
from shared.runtime.logs import get_logger


class Adopter:
    """Makes rows of other programs whole."""

    def __init__(self, backlog: Backlog, audience: Audience, policies: Policies) -> None:
        self._backlog, self._audience, self._policies = backlog, audience, policies
        self._log = get_logger("adopt")

    def adopt(self, rows: Sequence[Document], now: datetime) -> int:
        """Make `rows` (whole documents) whole; how many were changed. Doing it twice changes nothing."""
        changed = 0
        for row in rows:
            wrong = complaint(row, self._policies)
            if wrong is None:
                user, tokens = self._audience_of(row["userId"])
                change = adoption(row, user, tokens, now)
            else:
                change = refusal(row, now)
            changed += self._apply(row["_id"], change, now, wrong)
        return changed

    def _apply(self, row_id: Any, change: Adoption, now: datetime, wrong: str | None) -> int:
        # The copies first: until the row itself is whole, a sweep finds it again and does all of this once more.
        copies = sum(self._backlog.insert_copy(copy) for copy in change.copies)
        adopted = self._backlog.apply_unless_taken(moves.adopt(row_id, change.fields, change.absent))
        if adopted is None:
            # Its twin is there, by one key or the other: without the reminder's id it is outside both.
            twin = superseded(change.fields, now)
            adopted = self._backlog.apply(moves.adopt(row_id, twin, [*change.absent, "reminderId"]))
        if adopted and wrong:
            self._log.warning("foreign_row_refused", message_id=str(row_id), detail=wrong)
        elif adopted:
            self._log.info("foreign_row_adopted", message_id=str(row_id), copies=copies)
        return adopted + copies

    def _audience_of(self, user_id: Any) -> tuple[User | None, list[Token]]:
        try:
            users = [parse_user(document) for document in self._audience.users([user_id])]
        except BadDocument:
            users = []
        tokens = []
        for document in self._audience.active_tokens_of([user_id]):
            try:
                tokens.append(parse_token(document))
            except BadDocument as error:
                self._log.warning(
                    "skipped",
                    collection="notification_tokens",
                    document_id=str(document["_id"]),
                    reason=error.reason.value,
                )
        return (users[0] if users else None), tokens
