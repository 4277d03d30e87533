"""The product's own processes: each started by its command line, watched through its log, ended by its own pid."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deploy.local.demo.errors import DemoError
from deploy.local.packages import PROJECT

_READY_SECONDS = 60.0
_STOP_SECONDS = 20.0
_PAUSE_SECONDS = 0.1
_TAIL_LINES = 5
_SETTINGS = "PUNKTLIG_"


class Worker:
    """One process of the product. `log` holds all that it has said."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.log = name, log
        self._process = process
        self._started = time.monotonic()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        """Its exit code, negative for a signal. Raises DemoError if it does not end in time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise DemoError(f"{self.name} did not end within {seconds:g} s; see {self.log}") from None

    def kill(self) -> int:
        """End it without a chance to react (SIGKILL); its exit code, which proves that it was alive."""
        self._process.send_signal(signal.SIGKILL)
        return self.wait(_STOP_SECONDS)

    def ask_to_end(self) -> None:
        """Ask it to finish what it holds and stop (SIGTERM)."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM)

    def end(self) -> int:
        """Wait for an end that was asked for, and insist if it does not come; its exit code."""
        with suppress(DemoError):
            return self.wait(_STOP_SECONDS)
        return self.kill()

    def wait_ready(self) -> float:
        """Wait until the service says that it can do its work; seconds since its start.

        Raises DemoError, with the end of its log, if it ends or takes too long.
        """
        deadline = time.monotonic() + _READY_SECONDS
        pause = threading.Event()
        while not self._is_ready():
            if not self.is_running or time.monotonic() > deadline:
                state = "is not ready" if self.is_running else f"ended with {self._process.poll()}"
                raise DemoError(f"{self.name} {state}; the end of {self.log}:\n{self.tail()}")
            pause.wait(_PAUSE_SECONDS)
        return time.monotonic() - self._started

    def _is_ready(self) -> bool:
        port = next((event["http_port"] for event in self.events() if event.get("event") == "started"), None)
        if port is None:
            return False
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200  # noqa: PLR2004 - HTTP's OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def events(self) -> list[dict[str, Any]]:
        """Every JSON object that it has written, log events and answers alike."""
        found = []
        for line in self.log.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    found.append(event)
        return found

    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


class Fleet:
    """Starts workers; whatever still runs when the block ends is ended, and the kernel ends it if we are killed."""

    def __init__(self, logs: Path, settings: Mapping[str, str]) -> None:
        self._logs = logs
        # Settings in the caller's shell may point at a real system.
        clean = {name: value for name, value in os.environ.items() if not name.upper().startswith(_SETTINGS)}
        self._environment = {**clean, **settings}
        self._workers: list[Worker] = []

    def __enter__(self) -> Self:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_all()

    def start(self, name: str, *command: str) -> Worker:
        """Start `python -m …` under a name that is also its log file's."""
        log = self._logs / f"{name.replace(' ', '-')}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                # The kernel kills it with us; a session of its own, so that Ctrl-C reaches only us, and we end it.
                ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-m", *command],
                cwd=PROJECT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        worker = Worker(name, process, log)
        self._workers.append(worker)
        return worker

    def run(self, name: str, *command: str, seconds: float = 120.0) -> Worker:
        """Start a command and wait for its end. Raises DemoError unless it exits with 0."""
        worker = self.start(name, *command)
        finish(worker, seconds)
        return worker

    def end_all(self) -> dict[str, int]:
        """Ask all to end, wait for each; the exit codes of those that were still running, by name."""
        running = [worker for worker in self._workers if worker.is_running]
        for worker in running:
            worker.ask_to_end()
        return {worker.name: worker.end() for worker in running}


def finish(worker: Worker, seconds: float) -> None:
    """Wait for a command's end. Raises DemoError, with the end of its log, unless it exits with 0."""
    code = worker.wait(seconds)
    if code != 0:
        raise DemoError(f"{worker.name} ended with {code}; the end of {worker.log}:\n{worker.tail()}")
