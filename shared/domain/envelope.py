"""What travels through the broker: row ids and a due second, never a decision.

    {"v":1,"kind":"send","category":"meal","dueAt":"2026-03-29T07:00:00Z","ids":["<hex>", …]}

`ids` are wire forms made by the database adapter (hex for an ObjectId, MongoDB extended JSON for any other type).
The full contract is in `docs/message-contract.md`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

VERSION = 1
MOST_IDS = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLICE = timedelta(milliseconds=50)


class Kind(StrEnum):
    """Which stage a frame wakes."""

    SEND = "send"
    RECEIPTS = "receipts"


class Undecodable(ValueError):
    """A frame that is not ours, or not whole; the text says what is wrong with it."""


@dataclass(frozen=True)
class Frame:
    """One broker message: up to a batch of row ids that share a category and a due second.

    `early` counts how often it rang before its time and was put back.
    """

    kind: Kind
    category: str
    due_at: datetime
    ids: tuple[Any, ...]
    early: int = 0


def encode(frame: Frame) -> str:
    """The frame as ASCII JSON."""
    body: dict[str, Any] = {
        "v": VERSION,
        "kind": frame.kind.value,
        "category": frame.category,
        "dueAt": format_instant(frame.due_at),
        "ids": list(frame.ids),
    }
    if frame.early:
        body["early"] = frame.early
    return json.dumps(body, separators=(",", ":"))


def decode(text: str | bytes, kind: Kind) -> Frame:
    """The frame in `text`, which must be of `kind`.

    Raises:
        Undecodable: for anything this version cannot act on.

    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Undecodable(f"not JSON: {error}"[:200]) from error
    if not isinstance(body, dict):
        raise Undecodable("not a JSON object")
    if body.get("v") != VERSION:
        raise Undecodable(f"version {body.get('v')!r}"[:80])
    ids, early = body.get("ids"), body.get("early", 0)
    if not isinstance(ids, list) or not ids or not all(isinstance(item, str | dict) for item in ids):
        raise Undecodable("ids: not a list of ids")
    if len(ids) > MOST_IDS:
        raise Undecodable(f"ids: {len(ids)} of them, more than {MOST_IDS}")
    if not isinstance(early, int) or not isinstance(body.get("category"), str):
        raise Undecodable("category or early: wrong type")
    if body.get("kind") != kind:
        raise Undecodable(f"kind {body.get('kind')!r} instead of {kind.value!r}"[:80])
    try:
        return Frame(kind, body["category"], parse_instant(body.get("dueAt")), tuple(ids), early)
    except ValueError as error:
        raise Undecodable(str(error)[:200]) from error


def format_instant(instant: datetime) -> str:
    """`2026-03-29T07:00:00Z`, with milliseconds only where there are some."""
    utc = instant.astimezone(UTC)
    spec = "milliseconds" if utc.microsecond else "seconds"
    return utc.replace(tzinfo=None).isoformat(timespec=spec) + "Z"


def parse_instant(text: object) -> datetime:
    """An aware UTC instant from ISO 8601 text that names its offset; ValueError otherwise."""
    if not isinstance(text, str):
        raise ValueError("instant: not text")  # noqa: TRY004 - callers treat all bad text alike
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        raise ValueError(f"instant without offset: {text[:40]!r}; write it like 2026-03-29T07:00:00Z")
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("instant: out of range") from error


def group_by_due(kind: Kind, rows: Iterable[tuple[Any, str, datetime]], batch_size: int) -> Iterator[Frame]:
    """Frames of up to `batch_size` ids from (wire id, category, due instant) rows, by category and due instant.

    Instants within a slice of a second share a frame, which rings at the latest of them: no row is rung before its
    own time, and none waits for its neighbours for longer than a slice. Reminders are due on whole minutes and fill
    their frames anyway.
    """
    groups: dict[tuple[str, int], list[tuple[Any, datetime]]] = {}
    for wire_id, category, due in rows:
        groups.setdefault((category, (due - _EPOCH) // _SLICE), []).append((wire_id, due))
    for (category, _), members in groups.items():
        for batch in _batches(members, batch_size):
            yield Frame(kind, category, max(due for _, due in batch), tuple(wire_id for wire_id, _ in batch))


def _batches(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
