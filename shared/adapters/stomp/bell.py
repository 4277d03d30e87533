"""Rings rows: turns frames into delayed broker messages."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from shared.adapters.stomp.connection import OutgoingMessage
from shared.adapters.stomp.publisher import Publisher
from shared.domain.delay import delay_ms
from shared.domain.envelope import Frame, Kind, encode

RECEIPTS_QUEUE = "receipts"


def send_queue(category: str) -> str:
    """The queue of a category."""
    return f"notifications.{category}"


def dead_letter_queue(queue: str) -> str:
    """Where a queue's undecodable messages are kept."""
    return f"DLQ.{queue}"


class Bell:
    """Puts frames on the broker so that each rings shortly before its due instant."""

    def __init__(self, publisher: Publisher, window: timedelta) -> None:
        self._publisher, self._window = publisher, window

    def ring(self, frames: Sequence[Frame], now: datetime) -> None:
        """Publish all of them; `now` is the database's clock.

        Raises:
            BrokerUnavailable: some may be there; publish again.

        """
        self._publisher.publish([self._message(frame, now) for frame in frames])

    def _message(self, frame: Frame, now: datetime) -> OutgoingMessage:
        queue = RECEIPTS_QUEUE if frame.kind is Kind.RECEIPTS else send_queue(frame.category)
        return OutgoingMessage(queue, encode(frame), delay_ms(frame.due_at, now, self._window))

    def bury(self, queue: str, body: bytes, reason: str) -> None:
        """Keep a message that cannot be understood, byte for byte, where an operator finds it with its reason."""
        self._publisher.publish([OutgoingMessage(dead_letter_queue(queue), body, headers={"reason": reason})])
