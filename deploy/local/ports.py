"""Ports for servers that start on whatever machine they find."""

import random
import socket
from pathlib import Path

from deploy.local.errors import StackError

HOST = "127.0.0.1"
_LOWEST = 20_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Tell whether a server could listen on this loopback port now."""
    with socket.socket() as listener:
        # Servers set it too: connections of a predecessor in TIME_WAIT do not stop them.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A free loopback port below the kernel's ephemeral range.

    A port out of that range may be taken by any outgoing connection while its server is being restarted;
    one below it only by another server.
    """
    highest = _lowest_ephemeral_port()
    for _ in range(_ATTEMPTS):
        port = random.randrange(min(_LOWEST, highest - 1000), highest)  # noqa: S311 - a port is no secret
        if is_free(port):
            return port
    raise StackError(f"found no free port on {HOST} in {_ATTEMPTS} attempts")


def _lowest_ephemeral_port() -> int:
    try:
        return max(int(_EPHEMERAL_RANGE.read_text().split()[0]), 4_000)
    except OSError:
        return 32_768
