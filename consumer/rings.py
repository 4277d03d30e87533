"""What a handled frame must put back on the broker before it may be acknowledged."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shared.adapters.mongo.wire_ids import to_wire
from shared.adapters.stomp.bell import Bell
from shared.domain.envelope import Frame, Kind, group_by_due


@dataclass
class Rings:
    """Gathers rows to ring, by instant; `early` are those that rang before their time and go back once."""

    category: str
    batch_size: int
    again: list[tuple[Any, datetime]] = field(default_factory=list)
    early: list[tuple[Any, datetime]] = field(default_factory=list)
    receipts: list[tuple[Any, datetime]] = field(default_factory=list)

    def ring_at(self, ids: Sequence[Any], due: datetime) -> None:
        """Ring these rows again at `due`."""
        self.again += [(row_id, due) for row_id in ids]

    def ask_receipts_at(self, ids: Sequence[Any], due: datetime) -> None:
        """Have the receipts of these rows asked for at `due`."""
        self.receipts += [(row_id, due) for row_id in ids]

    def frames(self) -> list[Frame]:
        """All of it as frames."""
        frames = self._frames(Kind.SEND, self.again) + self._frames(Kind.RECEIPTS, self.receipts)
        early = self._frames(Kind.SEND, self.early)
        return frames + [Frame(one.kind, one.category, one.due_at, one.ids, early=1) for one in early]

    def _frames(self, kind: Kind, rows: Sequence[tuple[Any, datetime]]) -> list[Frame]:
        wired = ((to_wire(row_id), self.category, due) for row_id, due in rows)
        return list(group_by_due(kind, wired, self.batch_size))

    def publish(self, bell: Bell, now: datetime) -> None:
        """Put everything on the broker.

        Raises:
            BrokerUnavailable: do not acknowledge; handle the frame again.

        """
        frames = self.frames()
        if frames:
            bell.ring(frames, now)


SOON = timedelta(seconds=5)
"""A row that rings this little too early is waited for; one that rings earlier goes back to the broker."""
