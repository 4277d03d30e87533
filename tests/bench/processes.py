"""The product's own processes as the benchmarks run them, and what processes cost."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROJECT = Path(__file__).resolve().parents[2]
_COMMAND_SECONDS = 300.0
_END_SECONDS = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")
# Installed programs have their modules compiled; so have these, whatever the shell says about it.
_BYTECODE = Path(tempfile.gettempdir()) / f"punktlig-bench-bytecode-{os.getuid()}"


@dataclass(frozen=True)
class Finished:
    """A command that ended well: how long it took (wall seconds), what it said, its CPU seconds, its peak memory."""

    seconds: float
    answer: str
    cpu_seconds: float
    peak_mib: float


def run(settings: Mapping[str, str], *arguments: str) -> Finished:
    """Run `python -m ARGUMENTS` to its end; RuntimeError with its last words if it fails."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=PROJECT,
        env=_environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        timer = threading.Timer(_COMMAND_SECONDS, process.kill)
        timer.start()
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}: {answer[-2000:]}")
    return Finished(seconds, answer, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


class Service:
    """`python -m ARGUMENTS` for the length of a `with`; its log lines are kept with the moment they were read."""

    def __init__(self, settings: Mapping[str, str], *arguments: str) -> None:
        self._settings = {**settings, "PUNKTLIG_LOG_FORMAT": "json"}
        self._arguments = arguments
        self._lines: list[tuple[float, dict[str, Any]]] = []
        self._changed = threading.Condition()
        self._process: subprocess.Popen[str] | None = None
        self._ended = False

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self._arguments],
            cwd=PROJECT,
            env=_environment(self._settings),
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_for(self, event: str, seconds: float) -> tuple[float, dict[str, Any]]:
        """The first log line named `event`, and when it was read (monotonic); RuntimeError if it never comes."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                found = next(((at, line) for at, line in self._lines if line.get("event") == event), None)
                if found is not None:
                    return found
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    words = [line for _, line in self._lines[-5:]]
                    raise RuntimeError(f"{' '.join(self._arguments)} never said {event!r}; its last words: {words}")
                self._changed.wait(left)

    def events(self, name: str) -> list[dict[str, Any]]:
        """All log lines of that name so far."""
        with self._changed:
            return [line for _, line in self._lines if line.get("event") == name]

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stderr is not None
        for text in process.stderr:
            at = time.monotonic()
            try:
                line = json.loads(text)
            except ValueError:
                line = {"event": text.strip()}
            with self._changed:
                self._lines.append((at, line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": str(_BYTECODE), **settings}


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system seconds that these processes have used so far."""
    total = 0
    for pid in pids:
        # The name, in brackets, may hold anything; the fields after it are fixed.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS
