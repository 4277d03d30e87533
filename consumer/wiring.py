"""Puts the parts of the sending half together. The only place that knows them all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from consumer.dispatch import Dispatcher, DispatchParts, DispatchRules
from consumer.domain.brake import RetireBrake
from consumer.domain.breaker import Breaker
from consumer.expo.client import ExpoClient
from consumer.intake import Intake, IntakeParts
from consumer.judge import Judge
from consumer.permits import Permits
from consumer.receipts import ReceiptParts, ReceiptRules, ReceiptStage
from consumer.recording import Recorder, RecordRules
from consumer.send import SendParts, SendRules, SendStage
from consumer.settlement import Settler
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.limiter import Limiter
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.mongo.relocation import Relocator
from shared.adapters.stomp.bell import RECEIPTS_QUEUE, send_queue
from shared.adapters.stomp.subscriber import Subscriber
from shared.domain.envelope import Frame, Kind
from shared.process import Process
from shared.runtime.lifecycle import Shutdown

# Frames a worker may hold: those that wait for their instant, and one in hand.
_PREFETCH_PER_WORKER = 24
_RECEIPT_WORKERS = 2
# As many workers as connections this process may use: more would only wait for each other and for the interpreter,
# which costs a third of the throughput.
_FEWEST_WORKERS = 2
# A connection slot outlives its request by this much if its process was killed; claiming before and recording after
# the request fit into it.
_SLOT_MARGIN_SECONDS = 10


@dataclass(frozen=True)
class Service:
    """A consumer ready to run, and what it cannot do right now."""

    intake: Intake
    complaints: Callable[[], Mapping[str, str]]


class _Common:
    """What send and receipts both need, once per process."""

    def __init__(self, process: Process, shutdown: Shutdown) -> None:
        settings = process.settings
        self.process, self.shutdown = process, shutdown
        self.store = MessageStore(process.database)
        self.breaker = Breaker()
        self.expo = ExpoClient(
            settings.expo_url, settings.request_timeout, settings.expo_access_token.get_secret_value()
        )
        self.limiter = Limiter(
            process.database,
            settings.expo_rate_per_second,
            settings.expo_connections,
            settings.request_timeout + _SLOT_MARGIN_SECONDS,
        )
        self.permits = Permits(self.limiter, settings.expo_connections, shutdown, process.metrics)
        brake = RetireBrake(settings.mass_retire_share, settings.mass_retire_minimum)
        self.settler = Settler(self.store, brake, settings.failure_ceiling, process.metrics)

    def service(self, kind: Kind, queues: Sequence[str], handle: Callable[[Frame], None], workers: int) -> Service:
        """An intake over `queues` that calls `handle`."""
        process = self.process
        subscriber = Subscriber(process.settings.brokers, process.credentials, queues, _PREFETCH_PER_WORKER * workers)
        parts = IntakeParts(subscriber, process.bell, handle, process.clock.now, process.metrics)
        intake = Intake(parts, kind, workers, self.shutdown)

        def complaints() -> Mapping[str, str]:
            found = {"work": intake.trouble, "expo": self.breaker.reason, "broker_login": subscriber.refused}
            if intake.live_workers < workers:
                found["workers"] = f"{workers - intake.live_workers} of {workers} have died"
            if not subscriber.is_connected:
                found["broker"] = "not connected"
            return {name: text for name, text in found.items() if text}

        return Service(intake, complaints)


def build_send(process: Process, shutdown: Shutdown, categories: Sequence[str]) -> Service:
    """The send stage for some categories."""
    settings, common = process.settings, _Common(process, shutdown)
    relocator = Relocator(process.database, process.decision_rules)
    judge = Judge(common.store, Audience(process.database), relocator, process.decision_rules, process.metrics)
    receipt_delay = timedelta(seconds=settings.receipt_delay_seconds)
    recorder = Recorder(
        common.store,
        common.settler,
        common.limiter,
        common.breaker,
        RecordRules(settings.max_attempts, receipt_delay, settings.resend_pause),
        process.metrics,
    )
    rules = DispatchRules(settings.claim_seconds, settings.request_timeout, settings.policies)
    dispatch_parts = DispatchParts(
        common.store, common.expo, common.permits, recorder, judge, shutdown, process.metrics
    )
    dispatcher = Dispatcher(dispatch_parts, rules)
    parts = SendParts(common.store, judge, dispatcher, common.permits, common.breaker, process.bell, process.clock)
    lease = timedelta(seconds=settings.claim_seconds)
    stage = SendStage(parts, SendRules(lease, settings.batch_size, receipt_delay), shutdown)
    queues = [send_queue(category) for category in categories]
    return common.service(Kind.SEND, queues, stage.handle, max(_FEWEST_WORKERS, settings.expo_connections - 1))


def build_receipts(process: Process, shutdown: Shutdown) -> Service:
    """The receipts stage."""
    settings, common = process.settings, _Common(process, shutdown)
    parts = ReceiptParts(
        common.store,
        common.settler,
        common.expo,
        common.permits,
        common.breaker,
        process.bell,
        process.clock,
        process.metrics,
    )
    rules = ReceiptRules(
        settings.batch_size,
        timedelta(seconds=settings.receipt_delay_seconds),
        timedelta(seconds=settings.receipt_give_up_seconds),
        settings.policies,
    )
    return common.service(Kind.RECEIPTS, [RECEIPTS_QUEUE], ReceiptStage(parts, rules).handle, _RECEIPT_WORKERS)
