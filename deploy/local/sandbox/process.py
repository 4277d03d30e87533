"""The stand-in as a child process, for tests, benchmarks and the demonstration. Standard library only."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

_PROJECT = Path(__file__).resolve().parents[3]
_ANNOUNCEMENT = b"sandbox listening on "
_START_SECONDS = 30.0
_ANSWER_SECONDS = 30.0
_LONGEST_POLL_SECONDS = 20.0

Entry = dict[str, Any]


class SandboxError(RuntimeError):
    """The sandbox did not start, is gone, or refused what it was asked; the text holds its own words."""


class SandboxProcess:
    """One sandbox on a free port, started by ``with`` or ``start`` and ended with its parent at the latest.

    ``flags`` are those of the command line, such as ``"--rate=0"``. A start takes about half a second.
    """

    def __init__(self, *flags: str, port: int = 0) -> None:
        self._flags = flags
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        """``http://127.0.0.1:PORT`` while it runs."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id. Raises SandboxError if it was not started."""
        if self._process is None:
            raise SandboxError("the sandbox is not running")
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it listens; a second start takes the same port. Raises SandboxError."""
        if self._process is not None:
            raise SandboxError("the sandbox runs already")
        # A file, because nobody would empty a pipe while the sandbox runs.
        with tempfile.TemporaryFile() as complaints:
            self._process = self._spawn(complaints)
            line = self._first_line(self._process)
            if not line.startswith(_ANNOUNCEMENT):
                self._end(signal.SIGKILL)
                complaints.seek(0)
                said = complaints.read().decode(errors="replace").strip() or "it said nothing"
                raise SandboxError(f"the sandbox did not start: {said}")
        self.url = line.removeprefix(_ANNOUNCEMENT).decode().strip()
        self._port = int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        """End it; nothing happens if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without a chance to react."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: connections are taken by the kernel, nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen one go on."""
        os.kill(self.pid, signal.SIGCONT)

    def ledger(self, after: int = 0) -> list[Entry]:
        """The ledger's entries from number ``after`` on."""
        return _lines(self._call("GET", f"/_ledger?after={after}"))

    def requests(self, after: int = 0) -> list[Entry]:
        """The finished requests from number ``after`` on, in the order in which they ended."""
        return _lines(self._call("GET", f"/_requests?after={after}"))

    def faults(self, orders: Iterable[Mapping[str, Any]]) -> None:
        """Replace the orders for faults; an empty list clears them. Raises SandboxError for a bad order."""
        self._call("PUT", "/_faults", list(orders))

    def fault_counts(self) -> list[Entry]:
        """The present orders, each with ``fired`` and ``recipients``."""
        found: list[Entry] = json.loads(self._call("GET", "/_faults"))
        return found

    def devices(self, tokens: Sequence[str] = ()) -> dict[str, Entry]:
        """What the owners of the given tokens see, or of all."""
        query = urllib.parse.urlencode([("token", token) for token in tokens])
        found: dict[str, Entry] = json.loads(self._call("GET", f"/_devices?{query}"))
        return found

    def set_devices(self, devices: Mapping[str, Mapping[str, str]]) -> None:
        """Set state, platform or project by token. Raises SandboxError for a bad one."""
        self._call("PUT", "/_devices", {token: dict(fields) for token, fields in devices.items()})

    def reset(self) -> None:
        """Forget ledger, requests, faults and devices; receipts of earlier tickets stay."""
        for path in ("/_ledger", "/_requests", "/_faults", "/_devices"):
            self._call("DELETE", path)

    def wait_for(self, predicate: Callable[[list[Entry]], bool], timeout: float) -> list[Entry]:
        """Wait until the whole ledger satisfies the predicate, and return it; the server wakes us.

        Raises TimeoutError, with the number of entries, after ``timeout`` seconds.
        """
        return self._wait("/_ledger", predicate, timeout)

    def wait_for_requests(self, predicate: Callable[[list[Entry]], bool], timeout: float) -> list[Entry]:
        """As ``wait_for``, over the finished requests."""
        return self._wait("/_requests", predicate, timeout)

    def _wait(self, path: str, predicate: Callable[[list[Entry]], bool], timeout: float) -> list[Entry]:
        deadline = time.monotonic() + timeout
        entries = _lines(self._call("GET", path))
        while not predicate(entries):
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{path} has {len(entries)} entries after {timeout:g} s, and not as awaited")
            wait = min(left, _LONGEST_POLL_SECONDS)
            entries += _lines(self._call("GET", f"{path}?after={len(entries)}&wait={wait:.3f}"))
        return entries

    def _call(self, method: str, path: str, body: object = None) -> bytes:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=_LONGEST_POLL_SECONDS + _ANSWER_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request(method, path, None if body is None else json.dumps(body))
                response = connection.getresponse()
                content = response.read()
            except OSError as problem:
                raise SandboxError(f"{method} {path}: {problem!r}") from problem
        if response.status >= 400:  # noqa: PLR2004
            raise SandboxError(f"{method} {path}: {response.status} {content.decode(errors='replace')}")
        return content

    def _spawn(self, complaints: IO[bytes]) -> subprocess.Popen[bytes]:
        # -P: neither the caller's folder nor a stray module beside it is imported first.
        command = [sys.executable, "-P", "-m", "deploy.local.sandbox", f"--port={self._port}"]
        path = [str(_PROJECT), os.environ.get("PYTHONPATH")]
        return subprocess.Popen(
            [*command, "--until-stdin-closes", *self._flags],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
        )

    @staticmethod
    def _first_line(process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _START_SECONDS)
        return process.stdout.readline() if ready else b""

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
            process.wait(_ANSWER_SECONDS)


def _lines(content: bytes) -> list[Entry]:
    return [json.loads(line) for line in content.splitlines()]
