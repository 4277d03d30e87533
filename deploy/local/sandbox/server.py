"""Listening: one process, one event loop, gone at once when told so."""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

import uvicorn

from deploy.local.sandbox.application import build_application
from deploy.local.sandbox.connection import CuttableProtocol
from deploy.local.sandbox.push_service import Limits, PushService

# Longer than clients keep idle connections: to close one under a request would be a fault nobody ordered.
_KEEP_ALIVE_SECONDS = 600


class SandboxServer(uvicorn.Server):
    """Says where it listens once it does, and leaves signals to ``end_at_once``."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, then print the one line that callers wait for."""
        await super().startup(sockets)
        for listening in sockets or []:
            host, port = listening.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            print(f"sandbox listening on http://{shown}:{port}", flush=True)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers alone: a graceful end would wait for requests that hang on purpose."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; port 0 picks a free one. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named: asyncio sets TCP_NODELAY only then, and without it each answer waits 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


def serve(listening: socket.socket, limits: Limits) -> None:
    """Answer on the socket until the process ends."""
    config = uvicorn.Config(
        build_application(PushService(limits)),
        http=CuttableProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
    )
    SandboxServer(config).run(sockets=[listening])


def end_at_once() -> None:
    """Let SIGTERM and SIGINT end the process with exit code 0; no buffer holds what could be lost."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _, __: os._exit(0))


def end_with_stdin() -> None:
    """End the process when its standard input does: the parent is gone, even by SIGKILL."""

    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(0)

    threading.Thread(target=watch, daemon=True, name="stdin-watch").start()
