"""One command at a time per folder, also across crashes: the kernel drops the lock with its holder."""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.local.errors import FolderBusyError

LOCK_FILE = "lock"
_PAUSE_SECONDS = 0.1


class FolderLock:
    """An exclusive hold on a stack's folder; use as a context manager, or `acquire` and `release`."""

    def __init__(self, folder: Path, wait_seconds: float) -> None:
        self._path = folder / LOCK_FILE
        self._wait_seconds = wait_seconds
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; FolderBusyError if another process keeps it longer than the wait."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        deadline = time.monotonic() + self._wait_seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as fault:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    folder = self._path.parent
                    raise FolderBusyError(
                        f"{folder} is in use by another stack or command; give another --folder"
                    ) from fault
                time.sleep(_PAUSE_SECONDS)  # flock with a time-out does not exist
            else:
                self._descriptor = descriptor
                return

    def release(self) -> None:
        """Let the next one in."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
