"""Receipts: what Apple or Google answered, kept for a day under the ticket's id."""

import secrets
from array import array
from dataclasses import dataclass
from typing import Any

_KEPT_SECONDS = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one receipt departs from an ok that is ready after the usual delay."""

    receipt: dict[str, Any] | None = None
    """An error receipt, or None for ok."""
    missing: bool = False
    delay_seconds: float | None = None


class Receipts:
    """All tickets handed out, by number; ordinary ones cost eight bytes each."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds
        self._issued_at = array("d")
        self._outcomes: dict[int, Outcome] = {}
        # Ids of an earlier run of the sandbox must not answer for this one's.
        self._prefix = "-".join(secrets.token_hex(size) for size in (4, 2, 2, 2)) + "-"

    def issue(self, steady: float, outcome: Outcome | None) -> str:
        """A new ticket id, a UUID in form."""
        number = len(self._issued_at)
        self._issued_at.append(steady)
        if outcome is not None:
            self._outcomes[number] = outcome
        return f"{self._prefix}{number:012x}"

    def look_up(self, ticket_ids: list[str], steady: float) -> dict[str, dict[str, Any]]:
        """The receipts that are ready; unknown, late, missing and day-old ones are simply absent."""
        found = ((ticket_id, self._receipt(ticket_id, steady)) for ticket_id in ticket_ids)
        return {ticket_id: receipt for ticket_id, receipt in found if receipt is not None}

    def _receipt(self, ticket_id: str, steady: float) -> dict[str, Any] | None:
        number = self._number(ticket_id)
        if number is None:
            return None
        outcome = self._outcomes.get(number, Outcome())
        delay = self._delay_seconds if outcome.delay_seconds is None else outcome.delay_seconds
        age = steady - self._issued_at[number]
        if outcome.missing or not delay <= age < _KEPT_SECONDS:
            return None
        return outcome.receipt or {"status": "ok"}

    def _number(self, ticket_id: str) -> int | None:
        prefix, digits = ticket_id[: len(self._prefix)], ticket_id[len(self._prefix) :]
        try:
            number = int(digits, 16)
        except ValueError:
            return None
        canonical = prefix == self._prefix and digits == f"{number:012x}"
        return number if canonical and 0 <= number < len(self._issued_at) else None
