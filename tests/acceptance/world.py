"""A small world for acceptance tests: real servers, real processes driven by command line and signal."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from zoneinfo import ZoneInfo

from pymongo import MongoClient

from deploy.local.sandbox.process import SandboxProcess

PROJECT = Path(__file__).resolve().parents[2]
WAIT_SECONDS = 60.0


class Service(AbstractContextManager["Service"]):
    """One long-running process of the product; killed with the test if it still runs."""

    def __init__(self, arguments: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        self._lines: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=PROJECT, env=environment, stderr=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.log.open("w") as copy:
            for line in self.process.stderr:
                copy.write(line)
                with self._changed:
                    self._lines.append(json.loads(line) if line.startswith("{") else {"event": line.strip()})
                    self._changed.notify_all()

    def wait_for(self, event: str, **fields: Any) -> dict[str, Any]:
        """Wait for a log line with this event name and fields."""

        def found() -> dict[str, Any] | None:
            return next((one for one in self._lines if one["event"] == event and fields.items() <= one.items()), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() or self.process.poll() is not None, WAIT_SECONDS), self.tail()
            line = found()
        assert line is not None, self.tail()
        return line

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of a request to the service's status page."""
        port = self.wait_for("started")["http_port"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)

    def kill(self) -> int:
        """SIGKILL; the exit code, -9 if it was alive."""
        self.process.send_signal(signal.SIGKILL)
        return self.process.wait(WAIT_SECONDS)

    def tail(self) -> str:
        """The end of its log."""
        return f"{self.log}:\n" + "\n".join(str(line) for line in self._lines[-15:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()


class World:
    """One database, one sandbox, and the product's commands pointed at them."""

    def __init__(self, environment: dict[str, str], sandbox: SandboxProcess, folder: Path) -> None:
        self.sandbox, self._folder = sandbox, folder
        # A short horizon, so that a reminder due this minute is planned for today alone.
        ours = {"EXPO_URL": sandbox.url, "LOG_FORMAT": "json", "HORIZON_HOURS": "1"}
        self.settings = environment | {f"PUNKTLIG_{name}": value for name, value in ours.items()}
        self._client: MongoClient[dict[str, Any]] = MongoClient(environment["PUNKTLIG_MONGO_URL"], tz_aware=True)
        self.database = self._client[environment["PUNKTLIG_MONGO_DB"]]
        self.messages = self.database["notification_messages"]
        self.tokens = self.database["notification_tokens"]
        self._numbers = itertools.count()
        self._services: list[Service] = []

    def _environment(self, settings: dict[str, str]) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PUNKTLIG_")}
        return clean | self.settings | {f"PUNKTLIG_{name}": value for name, value in settings.items()}

    def run(self, command: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", *command.split()],
            cwd=PROJECT,
            env=self._environment(settings),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def ok(self, command: str, **settings: str) -> str:
        """Run a command that must succeed; what it printed."""
        done = self.run(command, **settings)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, command: str, **settings: str) -> Service:
        """Start a service and wait until it says that it has started."""
        service = self.launch(command, **settings)
        service.wait_for("started")
        return service

    def launch(self, command: str, **settings: str) -> Service:
        """Start a service."""
        name = f"{next(self._numbers)}-{command.replace(' ', '_')}.log"
        service = Service(command.split(), self._environment(settings), self._folder / name)
        self._services.append(service)
        return service

    def close(self) -> None:
        """End whatever still runs."""
        for service in self._services:
            service.__exit__()
        self._client.close()

    # --- people ---------------------------------------------------------------------------------------------

    def person(self, name: str, *, due: datetime, zone: str = "Asia/Kathmandu", **reminder: Any) -> None:
        """A user with one phone and one reminder that is due at the instant `due` in the user's zone."""
        local = due.astimezone(ZoneInfo(zone))
        self.user(name, zone)
        defaults = {
            "category": "meal",
            "label": "lunch",
            "localTimes": [f"{local:%H:%M}"],
            "title": "Lunch",
            "body": "Now",
        }
        self.database["reminders"].insert_one({"_id": f"r-{name}", "userId": name, **defaults, **reminder})

    def user(self, name: str, zone: str = "Asia/Kathmandu") -> None:
        """A user with one phone."""
        self.database["users"].insert_one({"_id": name, "timezone": zone, "locale": "en"})
        self.phone(name)

    def phone(self, name: str, **fields: Any) -> None:
        """A registered phone."""
        defaults = {"userId": name, "deviceId": f"d-{name}", "token": f"ExponentPushToken[{name}]", "platform": "ios"}
        token = {**defaults, "isActive": True, "failureCount": 0, **fields}
        self.tokens.insert_one(token)

    def row(self, name: str, due: datetime, **fields: Any) -> dict[str, Any]:
        """A complete pending row without a reminder, for a person with a phone; not yet on the broker."""
        phone = self.tokens.find_one({"userId": name, "isActive": True})
        assert phone is not None
        local = due.astimezone(ZoneInfo("Asia/Kathmandu"))
        row = {
            "userId": name,
            "deviceId": phone["deviceId"],
            "notificationTokenId": phone["_id"],
            "category": "meal",
            "label": "lunch",
            "localDate": f"{local:%Y-%m-%d}",
            "localTime": f"{local:%H:%M}",
            "timezone": "Asia/Kathmandu",
            "scheduledAt": due,
            "title": "Lunch",
            "body": "Now",
            "data": {},
            "status": "pending",
            "isDeleted": False,
            "attempts": 0,
            "unresolvedAttempts": 0,
            "plannedAt": due - timedelta(hours=1),
            "createdAt": due - timedelta(hours=1),
            **fields,
        }
        row["_id"] = self.messages.insert_one(row).inserted_id
        return row

    # --- what became of it ----------------------------------------------------------------------------------

    def wait_until(self, settled: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
        """Wait, on the change stream of the messages, until `settled` holds."""
        with self.messages.watch(max_await_time_ms=500) as changes:
            deadline = datetime.now(UTC) + timedelta(seconds=seconds)
            while not settled():
                assert datetime.now(UTC) < deadline, self.counts()
                changes.try_next()

    def counts(self) -> dict[str, int]:
        """How many rows stand at each status and reason."""
        return dict(Counter(f"{row['status']}/{row.get('reason')}" for row in self.messages.find()))

    def outcomes(self) -> dict[str, tuple[str, str | None]]:
        """Status and reason of each user's rows that are not deleted."""
        rows = self.messages.find({"isDeleted": False})
        return {row["userId"]: (row["status"], row.get("reason")) for row in rows}

    def arrivals(self) -> dict[str, int]:
        """How many pushes Expo accepted, by token."""
        counts: dict[str, int] = {}
        for entry in self.sandbox.ledger():
            if entry["status"] == "ok":
                counts[entry["token"]] = counts.get(entry["token"], 0) + 1
        return counts


def next_minute(at_least: float = 20.0) -> datetime:
    """The next whole minute that is at least this many seconds ahead."""
    return (datetime.now(UTC) + timedelta(seconds=at_least + 60)).replace(second=0, microsecond=0)


def this_minute() -> datetime:
    """The whole minute that has just begun: due, and well within every grace."""
    return datetime.now(UTC).replace(second=0, microsecond=0)


def soon(seconds: float) -> datetime:
    """An instant a little ahead, in whole milliseconds as MongoDB keeps them."""
    ahead = datetime.now(UTC) + timedelta(seconds=seconds)
    return ahead.replace(microsecond=ahead.microsecond // 1000 * 1000)
