"""Which of the ordered faults strike a request, and which of its recipients."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from deploy.local.sandbox.faults import PER_RECIPIENT, Fault, On, Order

_HASH_RANGE = float(1 << 64)


@dataclass(slots=True)
class Struck:
    """What was ordered for one request."""

    order: Order | None = None
    """At most one fault that decides the answer; the first in the list that applies."""
    delay_seconds: float = 0.0
    names: list[str] = field(default_factory=list)

    @property
    def fault(self) -> Fault | None:
        """The deciding fault."""
        return None if self.order is None else self.order.fault


class FaultBook:
    """The present orders, in the order in which they were given."""

    def __init__(self) -> None:
        self._standing: list[_Standing] = []

    def replace(self, orders: list[Order], steady: float) -> None:
        """Forget the present orders and start these now."""
        self._standing = [_Standing(order, steady) for order in orders]

    def describe(self) -> list[dict[str, Any]]:
        """All orders with how often each struck."""
        return [standing.order.describe() for standing in self._standing]

    def refuses(self, kind: On, steady: float) -> bool:
        """Whether a request whose head has just arrived is to be cut off."""
        refusals = (one for one in self._live(kind, steady) if one.order.fault is Fault.REFUSE)
        return any(one.strike_request([]) for one in refusals)

    def strike_request(self, kind: On, recipients: list[str], steady: float) -> Struck:
        """What happens to a request that was read; each order that strikes is counted."""
        struck = Struck()
        for one in self._live(kind, steady):
            fault = one.order.fault
            if fault in PER_RECIPIENT or fault is Fault.REFUSE:
                continue
            if fault is not Fault.DELAY and struck.order is not None:
                continue
            if not one.strike_request(recipients):
                continue
            struck.names.append(fault)
            if fault is Fault.DELAY:
                struck.delay_seconds += one.order.parameters["ms"] / 1000
            else:
                struck.order = one.order
        return struck

    def for_recipients(self, steady: float) -> "RecipientFaults":
        """The orders that may strike single recipients of one accepted send request."""
        live = self._live(On.SEND, steady)
        return RecipientFaults([one for one in live if one.order.fault in PER_RECIPIENT])

    def _live(self, kind: On, steady: float) -> Iterator["_Standing"]:
        return (one for one in self._standing if one.is_live(kind, steady))


class RecipientFaults:
    """Orders for single recipients, while one request is accepted."""

    def __init__(self, live: list["_Standing"]) -> None:
        self._live = live
        self._struck: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._live)

    @property
    def names(self) -> list[str]:
        """The faults that struck at least one recipient of this request."""
        return list(dict.fromkeys(one.order.fault for one in self._live if id(one) in self._struck))

    def strike(self, token: str, message_id: str | None) -> dict[Fault, dict[str, Any]]:
        """Fault and parameters for one recipient; of two orders of one fault the first one counts."""
        found: dict[Fault, dict[str, Any]] = {}
        for one in self._live:
            if one.order.fault not in found and one.selects_recipient(token, message_id):
                found[one.order.fault] = one.order.parameters
                one.order.recipients += 1
                if id(one) not in self._struck:
                    self._struck.add(id(one))
                    one.order.fired += 1
        return found


class _Standing:
    """An order with the clock that it runs by."""

    def __init__(self, order: Order, steady: float) -> None:
        self.order = order
        self._until = None if order.for_seconds is None else steady + order.for_seconds
        self._considered = 0

    def is_live(self, kind: On, steady: float) -> bool:
        order = self.order
        if order.times is not None and order.fired >= order.times:
            return False
        if self._until is not None and steady >= self._until:
            return False
        return order.on in (On.ANY, kind)

    def strike_request(self, recipients: list[str]) -> bool:
        """Whether the order takes this request; if so it is counted.

        A share of requests is drawn by their number, not by what they carry: else a retry would meet the same
        fate for ever.
        """
        order = self.order
        if order.tokens is not None and order.tokens.isdisjoint(recipients):
            return False
        self._considered += 1
        if not self._is_in_share(str(self._considered)):
            return False
        order.fired += 1
        return True

    def selects_recipient(self, token: str, message_id: str | None) -> bool:
        """Whether the order takes this recipient: always the same answer for the same message."""
        if self.order.tokens is not None and token not in self.order.tokens:
            return False
        return self._is_in_share(message_id or token)

    def _is_in_share(self, key: str) -> bool:
        if self.order.share >= 1:
            return True
        text = f"{self.order.seed}:{key}".encode("utf-8", "surrogatepass")
        drawn = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
        return drawn / _HASH_RANGE < self.order.share
