"""Server processes: started, found again after their starter died, signalled and awaited.

Every process is held by a pidfd, so a pid that the kernel has given to somebody else can never be meant.
Every server bears a mark in its environment; the marks in /proc, not a pid file, say what runs in a folder.
"""

import os
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from deploy.local.errors import StackError

_MARK = "LOCAL_STACK_SERVER"
_KILL_SECONDS = 20.0
_TIE_SECONDS = 20.0


@dataclass(frozen=True)
class Mark:
    """Which server of which folder a process is, and the port it was told to listen on."""

    name: str
    port: int
    folder: Path

    def encoded(self) -> str:
        """The value of the environment variable that the process bears."""
        return f"{self.name}:{self.port}:{self.folder}"

    @classmethod
    def of(cls, pid: int) -> Self | None:
        """Read the mark of a process; None if it has none, has ended or belongs to another user."""
        try:
            entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            return None
        prefix = f"{_MARK}=".encode()
        for entry in entries:
            if entry.startswith(prefix):
                name, port, folder = os.fsdecode(entry[len(prefix) :]).split(":", 2)
                return cls(name, int(port), Path(folder))
        return None


class LiveProcess:
    """One process, ours or a dead predecessor's, that can be signalled and awaited."""

    def __init__(self, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._child = child
        self._pidfd = os.pidfd_open(pid)

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens if the process has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, seconds: float) -> bool:
        """Wait until the process ends; True if it did within that time."""
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        if not poll.poll(max(0, int(seconds * 1000))):
            return False
        if self._child is not None:
            self._child.wait()  # it has ended: this only takes its status, so that no zombie stays
        return True

    def ask_to_end(self) -> None:
        """Ask the process to end (SIGTERM), paused or not."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)  # a paused process would keep the SIGTERM for later

    def end(self, grace_seconds: float) -> None:
        """Ask the process to end, insist after the grace (SIGKILL), and wait until it is gone."""
        self.ask_to_end()
        if not self.wait(grace_seconds):
            self.kill()

    def kill(self) -> None:
        """End the process at once (SIGKILL) and wait until it is gone."""
        self.send(signal.SIGKILL)
        if not self.wait(_KILL_SECONDS):
            raise StackError(f"process {self.pid} did not end {_KILL_SECONDS:.0f} s after SIGKILL")

    def close(self) -> None:
        """Let go of the process without touching it."""
        os.close(self._pidfd)


@dataclass(frozen=True)
class Launch:
    """What to start: the mark it will bear, its command line, further variables, where its output goes."""

    mark: Mark
    command: Sequence[str]
    environment: Mapping[str, str]
    output: Path


class Launcher:
    """Starts servers that outlive this command, or, if `tied`, that die with it whatever kills it."""

    def __init__(self, *, tied: bool) -> None:
        self._tied = tied
        # The kernel sends the death signal when the *thread* that started the child ends, not the process.
        # So all children are started by one thread that lives as long as the launcher.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="launcher")

    def launch(self, launch: Launch) -> LiveProcess:
        """Start the server's process; it has a session of its own, so Ctrl-C reaches only us."""
        return self._thread.submit(self._spawn, launch).result()

    def close(self) -> None:
        """End the launching thread, and with it every tied process that still runs."""
        self._thread.shutdown()

    def _spawn(self, launch: Launch) -> LiveProcess:
        launch.output.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **launch.environment, _MARK: launch.mark.encoded()}
        with launch.output.open("ab") as output:
            if self._tied:
                return _spawn_tied(launch.command, environment, output)
            return _spawn(launch.command, environment, output, subprocess.DEVNULL)


def _spawn(command: Sequence[str], environment: Mapping[str, str], output: BinaryIO, source: int) -> LiveProcess:
    child = subprocess.Popen(
        command, env=environment, stdin=source, stdout=output, stderr=output, start_new_session=True
    )
    return LiveProcess(child.pid, child)


def _spawn_tied(command: Sequence[str], environment: Mapping[str, str], output: BinaryIO) -> LiveProcess:
    """Start a process that the kernel kills when this thread ends, and wait until that is arranged."""
    # The shell holds the pipe as its stdin and drops it when it becomes the server: setpriv has then done its
    # work. Without the wait, a death of ours in between would leave the server running.
    tie = ("setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", 'exec "$0" "$@" </dev/null')
    reader, writer = os.pipe()
    try:
        try:
            process = _spawn((*tie, *command), environment, output, writer)
        finally:
            os.close(writer)
        dropped, _, _ = select.select([reader], [], [], _TIE_SECONDS)
    finally:
        os.close(reader)
    if not dropped:
        process.kill()
        raise StackError(f"{command[0]} could not be tied to this process within {_TIE_SECONDS:.0f} s")
    return process


def marked_processes(folder: Path) -> Iterator[tuple[Mark, LiveProcess]]:
    """Every live process that was started for this folder, by whomever; the caller closes them."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        pid = int(entry.name)
        mark = Mark.of(pid)
        if mark is None or mark.folder != folder:
            continue
        with suppress(ProcessLookupError):
            process = LiveProcess(pid)
            # Read again now that the pidfd pins the pid: it may have changed hands in between.
            if Mark.of(pid) == mark and not process.wait(0):
                yield mark, process
            else:
                process.close()
