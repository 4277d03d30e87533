"""What the relay reads from the change stream, gathered until it must go out."""

import queue
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Self

from creator.domain.foreign import is_whole
from shared.adapters.mongo.changes import ChangeFeed
from shared.domain.states import Status
from shared.runtime.clock import boottime

Document = dict[str, Any]

# Rows due later than this may wait a moment for others of their due second, so that batches fill.
_URGENT = timedelta(seconds=5)
_LINGER_SECONDS = 0.5
_BURST_SECONDS = 0.005
_IDLE_SECONDS = 1.0
_FULL_ROWS = 5_000
_READ_AHEAD = 20_000


@dataclass(frozen=True)
class Change:
    """One change and the place behind it; `document` None only wakes the reader's client."""

    document: Document | None
    place: Any = None


class StreamReader:
    """Reads the stream on a thread of its own, so that the server's waiting time never delays a row that is due."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._changes: queue.Queue[Change | BaseException] = queue.Queue(_READ_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._read, name="change-stream", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        while self._thread.is_alive():
            self.take(0.05, ignore_errors=True)  # the thread may be waiting for room
            self._thread.join(timeout=0.05)
        while self.take(0, ignore_errors=True) is not None:
            pass  # thousands of changes that the next reader reads again

    def _read(self) -> None:
        try:
            while not self._stopped.is_set():
                document = self._feed.next()
                if document is not None:
                    self._changes.put(Change(document, self._feed.place))
        except BaseException as error:  # noqa: BLE001 - handed to the thread that takes
            self._changes.put(error)

    def wake(self) -> None:
        """End the current wait of `take`, if there is one."""
        if not self._changes.full():
            self._changes.put(Change(None))

    def take(self, seconds: float, *, ignore_errors: bool = False) -> Change | None:
        """The next change, or None after `seconds`. Raises what the stream raised."""
        try:
            taken = self._changes.get(timeout=seconds) if seconds > 0 else self._changes.get_nowait()
        except queue.Empty:
            return None
        if isinstance(taken, BaseException):
            if ignore_errors:
                return None
            raise taken
        return taken


@dataclass
class Gathering:
    """Changes that go out together. `place` is behind the last of them, None while there are none."""

    window: timedelta
    rows: list[Document] = field(default_factory=list)
    moved_ids: list[Any] = field(default_factory=list)
    foreign_ids: list[Any] = field(default_factory=list)
    place: Any = None
    _since: float = 0.0
    _urgent: bool = False

    def collect(self, reader: StreamReader, now: datetime) -> None:
        """Take changes until some must go out, or for a second if there are none. `now` is the database's clock."""
        while len(self.rows) < _FULL_ROWS:
            patience = self._patience()
            change = reader.take(patience)
            if change is None or change.document is None:
                return
            self._add(change.document, now)
            self.place = change.place

    def _patience(self) -> float:
        if self.place is None:
            return _IDLE_SECONDS
        if self._urgent:
            return _BURST_SECONDS
        return self._since + _LINGER_SECONDS - boottime()

    def _add(self, change: Document, now: datetime) -> None:
        if self.place is None:
            self._since = boottime()
        row_id = change["documentKey"]["_id"]
        if change["operationType"] == "update":
            self.moved_ids.append(row_id)
            return
        row = {**change["fullDocument"], "_id": row_id}
        if not is_whole(row):
            self.foreign_ids.append(row_id)
            self._urgent = True
        elif _awaits_ringing(row) and row["scheduledAt"] <= now + self.window:
            self.rows.append(row)
            self._urgent = self._urgent or row["scheduledAt"] <= now + _URGENT


def _awaits_ringing(row: Document) -> bool:
    is_live = row.get("status") == Status.PENDING and row.get("isDeleted") is False
    return is_live and row.get("enqueuedAt") is None and isinstance(row.get("scheduledAt"), datetime)
