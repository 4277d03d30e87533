"""What every process is made of: settings, logs, clock, database, broker, metrics and status page.

Nothing is connected before it is used. `run_command` turns what went wrong into one line and an exit code.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from shared.adapters.errors import BrokerRefused, Unavailable, WrongSchema
from shared.adapters.mongo.client import BadDatabaseAddress, Database, connect, server_now
from shared.adapters.mongo.indexes import check_indexes
from shared.adapters.stomp.bell import Bell
from shared.adapters.stomp.canary import CanaryWatch, check_scheduler
from shared.adapters.stomp.connection import Credentials
from shared.adapters.stomp.publisher import Publisher
from shared.domain.decision import Rules
from shared.domain.zones import tzdata_version, use_packaged_zones
from shared.runtime.clock import ServerClock
from shared.runtime.http import StatusServer
from shared.runtime.lifecycle import EXIT_DONE, EXIT_FAULT, EXIT_USAGE, Shutdown
from shared.runtime.logs import configure_logs, get_logger, scrub
from shared.runtime.metrics import Metrics
from shared.runtime.settings import BadSettings, Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator


class Process:
    """The parts of one process, made when first asked for."""

    def __init__(self, part: str, settings: Settings) -> None:
        use_packaged_zones()
        _relax_garbage_collection()
        self.part, self.settings = part, settings
        self.metrics = Metrics()
        self.clock = ServerClock(self.server_now, Unavailable)
        self.log = get_logger(part)

    @cached_property
    def database(self) -> Database:
        """The database, every write of which is durable on the majority."""
        return connect(self.settings.mongo_url.get_secret_value(), self.settings.mongo_db, self.part)

    @cached_property
    def credentials(self) -> Credentials:
        """How to log in at the broker."""
        settings = self.settings
        return Credentials(settings.stomp_login, settings.stomp_passcode.get_secret_value(), settings.stomp_ca_file)

    @cached_property
    def publisher(self) -> Publisher:
        """The connection that publishes."""
        return Publisher(self.settings.brokers, self.credentials)

    @cached_property
    def bell(self) -> Bell:
        """What rings rows through the broker."""
        return Bell(self.publisher, self.settings.broker_window)

    @cached_property
    def decision_rules(self) -> dict[str, Rules]:
        """What decisions about rows of each category go by."""
        settings = self.settings
        return {
            name: Rules(policy, settings.max_attempts, settings.resend_pause)
            for name, policy in settings.policies.items()
        }

    def server_now(self) -> datetime:
        """The database server's clock, asked now."""
        return server_now(self.database)

    def check_indexes(self) -> None:
        """Refuse to work without the indexes the promises rest on."""
        check_indexes(self.database)

    def check_broker(self) -> None:
        """Refuse to work with a broker that does not delay."""
        self.log.info("broker_delays", late_s=round(self._fly_canary(), 3))

    def _fly_canary(self) -> float:
        late = check_scheduler(self.settings.brokers, self.credentials)
        self.metrics.canary_late.set(late)
        return late

    @contextmanager
    def serving(self, complaints: Callable[[], Mapping[str, str]]) -> "Iterator[Shutdown]":
        """Answer status requests and listen to signals while the service runs; yields the request to stop."""
        self.clock.now()  # from here on the last estimate serves while the database is away
        shutdown = Shutdown(self.settings.drain_seconds)
        shutdown.listen()
        facts = {"service": self.part, "tzdata": tzdata_version()}
        canary = CanaryWatch(self._fly_canary)

        def all_complaints() -> Mapping[str, str]:
            scheduler = {"broker_scheduler": canary.complaint} if canary.complaint else {}
            return {**complaints(), **scheduler}

        status = StatusServer(self.settings.http_port, self.metrics.registry, all_complaints, facts)
        canary.start()
        self.log.info("started", http_port=status.port, **facts)
        try:
            yield shutdown
        finally:
            canary.stop()
            status.close()
            self.close()
            self.log.info("stopped")

    def close(self) -> None:
        """Disconnect from whatever was connected."""
        if "publisher" in self.__dict__:
            self.publisher.close()
        if "database" in self.__dict__:
            self.database.client.close()


def _relax_garbage_collection() -> None:
    """Look for cycles rarely: documents by the ten thousand come and go here, and next to nothing is a cycle.

    With the interpreter's own threshold a plan spends a tenth of its time looking.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def run_command(part: str, command: Callable[[Process], int | None]) -> int:
    """Run one command of a process; its exit code: 0 done, 1 fault, 2 usage or configuration.

    What is expected to go wrong is told in one line on stderr.
    """
    try:
        settings = load_settings()
    except BadSettings as error:
        return _told(error, EXIT_USAGE)
    configure_logs(settings.log_format)
    process = Process(part, settings)
    try:
        return command(process) or EXIT_DONE
    except (BadSettings, WrongSchema, BrokerRefused, BadDatabaseAddress) as error:
        return _told(error, EXIT_USAGE)
    except Unavailable as error:
        return _told(error, EXIT_FAULT)
    finally:
        process.close()


def _told(error: Exception, code: int) -> int:
    print(f"punktlig: {scrub(str(error))}", file=sys.stderr)  # noqa: T201 - the one line a person reads
    return code
