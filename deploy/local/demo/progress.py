"""What the watcher is shown while it happens: read from the rows and the ledger, twice a second."""

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from deploy.local.demo.scenario import Fate, Scenario
from deploy.local.sandbox.process import SandboxError, SandboxProcess
from shared.adapters.mongo.client import Database

_EVERY_SECONDS = 0.5
_SEEN = {"timezone": 1, "status": 1, "reason": 1, "enqueuedAt": 1}


@dataclass
class Place:
    """How the rows of one time zone stand."""

    sent: int = 0
    waiting: int = 0
    unsent: Counter[str] = field(default_factory=Counter)
    """Missed and failed rows, by reason."""


@dataclass(frozen=True)
class Stage:
    """One progress bar."""

    name: str
    done: int
    total: int


@dataclass
class Snapshot:
    """Everything the view needs at one moment."""

    at: datetime
    due: datetime | None = None
    stages: list[Stage] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)

    @property
    def seconds_to_due(self) -> float | None:
        """Negative once it has passed; None before it is known."""
        return None if self.due is None else (self.due - self.at).total_seconds()


class Progress:
    """Takes snapshots on a thread of its own and hands each to `show`; `latest` is the newest."""

    def __init__(self, database: Database, sandbox: SandboxProcess, show: Callable[[Snapshot], None]) -> None:
        self._database, self._sandbox, self._show = database, sandbox, show
        self._scenario: Scenario | None = None
        self._accepted: set[str] = set()
        self._read = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=10)

    def follow(self, scenario: Scenario) -> None:
        """From now on there is something to measure against."""
        self._scenario = scenario

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._show(self.take())
            except SandboxError:
                return  # it was stopped before us
            self._stop.wait(_EVERY_SECONDS)

    def take(self) -> Snapshot:
        """How things stand now."""
        snapshot = Snapshot(datetime.now(UTC))
        scenario = self._scenario
        if scenario is None:
            return snapshot
        snapshot.due = scenario.due
        rows = list(self._database["notification_messages"].find({"isDeleted": False}, _SEEN))
        snapshot.places = _by_zone(rows)
        snapshot.stages = self._stages(scenario, rows)
        return snapshot

    def _stages(self, scenario: Scenario, rows: list[dict[str, Any]]) -> list[Stage]:
        entries = self._sandbox.ledger(self._read)
        self._read += len(entries)
        self._accepted.update(entry["messageId"] for entry in entries if entry["status"] == "ok")
        arriving = len(scenario.expected(Fate.ARRIVES))
        # A phone that is gone without Expo knowing: accepted all the same.
        gone = sum(phone.get("state") == "gone" for phone in scenario.phones.values())
        queued = sum(row["enqueuedAt"] is not None for row in rows)
        confirmed = sum(row["status"] == "success" for row in rows)
        return [
            Stage("planned", len(rows), scenario.planned),
            Stage("on the broker", queued, scenario.planned),
            Stage("accepted", len(self._accepted), arriving + gone),
            Stage("confirmed", confirmed, arriving),
        ]


def _by_zone(rows: list[dict[str, Any]]) -> dict[str, Place]:
    places: dict[str, Place] = defaultdict(Place)
    for row in rows:
        place = places[row["timezone"]]
        if row["status"] == "pending":
            place.waiting += 1
        elif row["status"] in {"sent", "success"}:
            place.sent += 1
        else:
            place.unsent[row["reason"]] += 1
    return dict(places)
