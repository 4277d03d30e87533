"""ActiveMQ of the local stack: Debian's broker under a folder of the stack, with our configuration."""

import time
import uuid
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from deploy.local.credentials import Credentials
from deploy.local.dialogue import StompDialogue
from deploy.local.packages import Packages
from deploy.local.ports import HOST
from deploy.local.process import Launcher
from deploy.local.programs import broker_program
from deploy.local.server import Server

CONFIGURATION = Path(__file__).resolve().parents[1] / "activemq"
_CANARY = "/queue/health.canary"
_CANARY_SECONDS = 60
_HEAP = "512m"
# ActiveMQ and XStream reach into these packages by reflection, which Java 17 forbids by default.
_OPENED = ("java.base/java.lang", "java.base/java.util", "java.base/java.net", "java.base/java.security")


class ActiveMq(Server):
    """A broker on the loopback address that speaks STOMP; `url` is what clients connect to."""

    name = "activemq"

    def __init__(self, folder: Path, launcher: Launcher, packages: Packages) -> None:
        super().__init__(folder, launcher)
        self._packages = packages

    @cached_property
    def credentials(self) -> Credentials:
        """The broker's users, the same for every broker of this folder."""
        return Credentials.of(self.folder)

    @property
    def url(self) -> str:
        """The address of the STOMP listener."""
        return f"stomp://{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.home / "broker.log"

    def command(self) -> Sequence[str]:
        """The command line of the Java process; passcodes are not in it."""
        program = broker_program(self._packages)
        settings = {
            "activemq.home": program.home,
            "activemq.base": self.home,
            "activemq.conf": CONFIGURATION,
            "activemq.data": self.home,
            "java.io.tmpdir": self._temporary(),
            "log4j.configuration": f"file:{CONFIGURATION / 'log4j.properties'}",
            "BROKER_DATA": self.home,
            "BROKER_HOST": HOST,
            "BROKER_PORT": self.port,
        }
        return (
            str(program.java),
            f"-Xmx{_HEAP}",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
            *(f"-D{name}={value}" for name, value in settings.items()),
            *("-cp", ":".join(str(jar) for jar in program.class_path)),
            "org.apache.activemq.console.Main",
            *("start", f"xbean:{(CONFIGURATION / 'activemq.xml').as_uri()}"),
        )

    def variables(self) -> Mapping[str, str]:
        """Log-ins, by environment: other users of the machine can read command lines."""
        mine = self.credentials
        return {
            "BROKER_LOGIN": mine.login,
            "BROKER_PASSCODE": mine.passcode,
            "BROKER_OPS_LOGIN": mine.ops_login,
            "BROKER_OPS_PASSCODE": mine.ops_passcode,
            **self._packages.library_path(),
        }

    def probe(self, seconds: float) -> None:
        """Log in and get a delayed message back: plain messages pass even when the scheduler is dead."""
        canary = uuid.uuid4().hex
        with self.dialogue(seconds) as dialogue:
            dialogue.subscribe(_CANARY, {"selector": f"canary = '{canary}'"})
            headers = {
                "destination": _CANARY,
                "canary": canary,
                "persistent": "true",
                "AMQ_SCHEDULED_DELAY": "1",
            }
            expiry = {"expires": str(int((time.time() + _CANARY_SECONDS) * 1000))}  # should we not wait for it
            dialogue.send_with_receipt(headers | expiry, b"", seconds)
            dialogue.expect("MESSAGE", seconds)

    def dialogue(self, timeout: float, *, as_ops: bool = False) -> StompDialogue:
        """A connection logged in as the services' user, or as the operators'."""
        mine = self.credentials
        login, passcode = (mine.ops_login, mine.ops_passcode) if as_ops else (mine.login, mine.passcode)
        return StompDialogue((HOST, self.port), login, passcode, timeout)

    def _temporary(self) -> Path:
        folder = self.home / "tmp"
        folder.mkdir(parents=True, exist_ok=True)
        return folder
