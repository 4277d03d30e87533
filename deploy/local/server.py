"""One server of the local stack: started, awaited, killed, paused and started again on its own port."""

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from deploy.local.errors import NotReadyError, ServerEndedError, StackError
from deploy.local.process import Launch, Launcher, LiveProcess, Mark

READY_SECONDS = 90.0
_PROBE_PAUSE_SECONDS = 0.05
_TAIL_BYTES = 2_000


class Server(ABC):
    """A process with a port, a folder of its own and a way to prove that it does its work.

    `start`, `stop`, `kill`, `pause`, `resume` and `restart` may be called from any thread, one at a time.
    """

    name: ClassVar[str]
    stop_seconds: ClassVar[float] = 20.0

    def __init__(self, folder: Path, launcher: Launcher) -> None:
        self.folder = folder
        self.port = 0  # chosen before the first start
        self._launcher = launcher
        self._process: LiveProcess | None = None

    @property
    def home(self) -> Path:
        """The server's own folder inside the stack's: data, log, process output."""
        return self.folder / self.name

    @property
    def log(self) -> Path:
        """The file to read when the server does not start."""
        return self.home / "output.log"

    @property
    def pid(self) -> int:
        """The process id of the running server; StackError if none was started."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and not self._process.wait(0)

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line; it holds no secret."""

    @abstractmethod
    def probe(self, seconds: float) -> None:
        """Do one piece of the server's real work within that time, else raise NotReadyError or OSError."""

    def variables(self) -> Mapping[str, str]:
        """Environment variables for the process beside those of this one."""
        return {}

    def start(self) -> None:
        """Start the process; `wait_ready` says when it works. StackError if it runs already."""
        if self.is_running:
            raise StackError(f"{self.name} runs already (pid {self.pid})")
        self._forget()
        self.home.mkdir(parents=True, exist_ok=True)
        mark = Mark(self.name, self.port, self.folder)
        output = self.home / "output.log"
        self._process = self._launcher.launch(Launch(mark, self.command(), self.variables(), output))

    def adopt(self, process: LiveProcess, port: int) -> None:
        """Take over a process that a predecessor started for this folder."""
        self._forget()
        self._process, self.port = process, port

    def wait_ready(self, seconds: float = READY_SECONDS) -> float:
        """Wait until the server does its work; the seconds that took.

        ServerEndedError if the process ends meanwhile, StackError if the time runs out.
        """
        process, begin = self._running(), time.monotonic()
        while True:
            left = begin + seconds - time.monotonic()
            try:
                self.probe(min(max(left, 0.1), 10.0))
            except (NotReadyError, OSError) as fault:
                reason = str(fault)
            else:
                # What answered may be a stranger on our port if our own process could not bind it.
                if not process.wait(0):
                    return time.monotonic() - begin
                reason = "another process answers on its port"
            if process.wait(_PROBE_PAUSE_SECONDS):
                raise ServerEndedError(f"{self.name} ended before it answered ({reason}); {self._last_words()}")
            if left <= 0:
                raise StackError(f"{self.name} did not answer within {seconds:.0f} s ({reason}), see {self.log}")

    def kill(self) -> None:
        """End the process as a crash would (SIGKILL) and wait until it is gone."""
        self._running().kill()

    def ask_to_stop(self) -> None:
        """Send SIGTERM and return at once; `stop` waits for the end."""
        self._running().ask_to_end()

    def stop(self) -> None:
        """End the process in good order; SIGKILL if that takes longer than `stop_seconds`."""
        self._running().end(self.stop_seconds)

    def pause(self) -> None:
        """Freeze the process (SIGSTOP): connections stay open, nothing answers."""
        self._running().send(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        self._running().send(signal.SIGCONT)

    def restart(self) -> None:
        """Stop the process if it runs, start it on the same port and wait until it does its work."""
        if self.is_running:
            self.stop()
        self.start()
        self.wait_ready()

    def close(self) -> None:
        """Let go of the process without touching it."""
        self._forget()

    def _running(self) -> LiveProcess:
        if self._process is None:
            raise StackError(f"{self.name} was not started")
        return self._process

    def _forget(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _last_words(self) -> str:
        for path in (self.log, self.home / "output.log"):
            if path.is_file():
                lines = path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").split("\n")
                spoken = [line.strip() for line in lines if line.strip()]
                if spoken:
                    return f"{path} ends with: {spoken[-1]}"
        return f"it left no log in {self.home}"
