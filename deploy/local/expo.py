"""The stand-in for Expo as one server of the local stack."""

import sys
import urllib.request
from collections.abc import Mapping, Sequence

from deploy.local.packages import PROJECT
from deploy.local.ports import HOST
from deploy.local.server import Server


class ExpoSandbox(Server):
    """The sandbox process; `url` is what the services take for Expo."""

    name = "sandbox"
    stop_seconds = 5.0

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://{HOST}:{self.port}"

    def command(self) -> Sequence[str]:
        """The command line."""
        return (sys.executable, "-m", "deploy.local.sandbox", "--port", str(self.port))

    def variables(self) -> Mapping[str, str]:
        """Where Python finds the sandbox, from whatever folder the stack is started."""
        return {"PYTHONPATH": str(PROJECT)}

    def probe(self, seconds: float) -> None:
        """Show the ledger."""
        with urllib.request.urlopen(f"{self.url}/_ledger", timeout=seconds) as answer:  # noqa: S310 - our own http URL
            answer.read()
