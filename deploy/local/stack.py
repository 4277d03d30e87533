"""The local stack: MongoDB, ActiveMQ and, if wanted, the stand-in for Expo, in one folder on free ports."""

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.local.activemq import ActiveMq
from deploy.local.credentials import CREDENTIALS_FILE
from deploy.local.errors import ServerEndedError, StackError
from deploy.local.expo import ExpoSandbox
from deploy.local.lock import LOCK_FILE, FolderLock
from deploy.local.mongod import Mongod
from deploy.local.packages import Packages
from deploy.local.ports import free_port, is_free
from deploy.local.process import Launcher, LiveProcess, marked_processes
from deploy.local.server import Server

DATABASE = "punktlig"
_PORTS_FILE = "ports.json"
_START_ATTEMPTS = 3
_ADOPTION_SECONDS = 6.0
_GRACE_SECONDS = 20.0
_COMMAND_SECONDS = 30.0  # how long another command on the same folder is waited for
_OWNER_SECONDS = 1.0


def say(line: str) -> None:
    """Report a step on stderr; stdout belongs to the settings."""
    print(f"stack: {line}", file=sys.stderr, flush=True)


class LocalStack:
    """Real servers for tests, the demo and a developer's shell.

    As a context manager it owns its servers: they end with the block, and die with this process whatever
    kills it. With `outlives=True` they stay, and those that already run for the folder are taken over.
    MongoDB and the broker start together: on two idle cores both answer after 1.7 s, on an empty folder as
    on old data. A restart takes MongoDB 1.8 s (0.4 s after `kill`), the broker 1.8 s (1.5 s after `kill`).
    """

    def __init__(
        self, folder: Path, *, sandbox: bool = False, outlives: bool = False, packages: Packages | None = None
    ) -> None:
        self.folder = folder.resolve()
        self._outlives = outlives
        self._lock = FolderLock(self.folder, _COMMAND_SECONDS if outlives else _OWNER_SECONDS)
        self._launcher = Launcher(tied=not outlives)
        packages = packages or Packages()
        self.mongod = Mongod(self.folder, self._launcher, packages)
        self.broker = ActiveMq(self.folder, self._launcher, packages)
        self.sandbox = ExpoSandbox(self.folder, self._launcher) if sandbox else None

    def environment(self) -> dict[str, str]:
        """The settings that point Punktlig at this stack, by the names of their environment variables."""
        settings = {
            "PUNKTLIG_MONGO_URL": self.mongod.url,
            "PUNKTLIG_MONGO_DB": DATABASE,
            "PUNKTLIG_STOMP_URLS": self.broker.url,
            "PUNKTLIG_STOMP_LOGIN": self.broker.credentials.login,
            "PUNKTLIG_STOMP_PASSCODE": self.broker.credentials.passcode,
        }
        if self.sandbox is not None:
            settings["PUNKTLIG_EXPO_URL"] = self.sandbox.url
        return settings

    def start(self) -> None:
        """Start all servers, wait until each does its work; StackError names one that does not."""
        self._lock.acquire()
        ours: list[Server] = []
        try:
            self._settle_predecessors()
            remembered = _remembered_ports(self.folder)
            for server in self._servers():
                if not server.is_running:
                    server.port = _usable(remembered.get(server.name, 0))
                    say(f"starting {server.name}, files in {server.home}")
                    server.start()
                    ours.append(server)
            for server in ours:
                _await(server)
            _remember_ports(self.folder, self._servers())
        except BaseException:
            try:
                _end_all(ours)
            finally:
                self.close()
            raise

    def stop(self) -> None:
        """Stop every server in good order and let go of the folder."""
        try:
            _end_all(self._servers())
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the folder and of the servers, which end now unless they outlive this process."""
        self._launcher.close()
        for server in self._servers():
            server.close()
        self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outlives:
            self.close()
        else:
            self.stop()

    def _servers(self) -> list[Server]:
        servers: list[Server] = [self.mongod, self.broker]
        return servers if self.sandbox is None else [*servers, self.sandbox]

    def _settle_predecessors(self) -> None:
        """Take over what a predecessor left in working order; end the rest, which may hold locks."""
        for mark, process in list(marked_processes(self.folder)):
            server = next((server for server in self._servers() if server.name == mark.name), None)
            if server is None and self._outlives:
                process.close()  # a sandbox that this call does not ask for is no reason to end it
            elif server is None or not self._outlives or server.is_running:
                say(f"ending a left-over {mark.name} (pid {process.pid})")
                process.end(_GRACE_SECONDS)
                process.close()
            else:
                _adopt(server, mark.port, process)


class StackFolder:
    """The folder of a stack whose servers were started by somebody else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def stop(self) -> int:
        """End every server that was started for this folder, and nothing else; how many there were."""
        if not self.folder.is_dir():
            return 0
        with FolderLock(self.folder, _COMMAND_SECONDS):
            found = list(marked_processes(self.folder))
            for mark, process in found:
                say(f"stopping {mark.name} (pid {process.pid})")
                process.ask_to_end()
            for _, process in found:
                process.end(_GRACE_SECONDS)
                process.close()
        return len(found)

    def wipe(self) -> None:
        """Delete what stacks keep in this folder; files of others stay, and the folder with them."""
        if not self.folder.is_dir():
            return
        for server in (Mongod, ActiveMq, ExpoSandbox):
            shutil.rmtree(self.folder / server.name, ignore_errors=True)
        for name in (_PORTS_FILE, CREDENTIALS_FILE, LOCK_FILE):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()


def _adopt(server: Server, port: int, process: LiveProcess) -> None:
    server.adopt(process, port)
    try:
        server.wait_ready(_ADOPTION_SECONDS)
    except StackError as fault:
        say(f"{fault}; starting it anew")
        server.stop()
        server.close()
    else:
        say(f"{server.name} runs already on port {port} (pid {process.pid})")


def _await(server: Server) -> None:
    for attempt in range(1, _START_ATTEMPTS + 1):
        try:
            seconds = server.wait_ready()
        except ServerEndedError:
            if attempt == _START_ATTEMPTS:
                raise
            # Somebody took the port meanwhile, or a killed predecessor had not yet let go of its files.
            server.port = _usable(server.port)
            say(f"{server.name} ended at once; trying again on port {server.port}")
            server.start()
        else:
            say(f"{server.name} works on port {server.port} ({seconds:.1f} s)")
            return


def _end_all(servers: Sequence[Server]) -> None:
    running = [server for server in servers if server.is_running]
    for server in running:
        server.ask_to_stop()
    for server in running:
        server.stop()


def _usable(port: int) -> int:
    return port if port and is_free(port) else free_port()


def _remembered_ports(folder: Path) -> dict[str, int]:
    """Last time's ports: with them, a shell that was pointed at the stack stays so over `down` and `up`."""
    try:
        ports = json.loads((folder / _PORTS_FILE).read_text())
        return {str(name): int(port) for name, port in ports.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _remember_ports(folder: Path, servers: Sequence[Server]) -> None:
    ports = {**_remembered_ports(folder), **{server.name: server.port for server in servers}}
    fresh = folder / f"{_PORTS_FILE}.new"
    fresh.write_text(json.dumps(ports))
    fresh.replace(folder / _PORTS_FILE)
