"""Every metric of the product, in one closed list. `docs/metrics.md` is kept equal by a test.

Labels are bounded: categories come from settings, reasons from `shared.domain.states`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LATENESS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 1800)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics of one process, on a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._plan()
        self._relay()
        self._send()
        self._receipts()

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"punktlig_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"punktlig_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"punktlig_{name}", text, buckets=buckets, registry=self.registry)

    def _plan(self) -> None:
        self.planned = self._counter("planned_total", "Rows inserted by a plan.", "category")
        self.skipped = self._counter("skipped_total", "What a plan passed over, by reason.", "reason")

    def _relay(self) -> None:
        self.enqueued = self._counter("enqueued_total", "Rows put on the broker, with its receipt.", "category")
        self.swept = self._counter("swept_total", "Rows a sweep acted on, by what it did.", "action")
        self.publish_failures = self._counter("publish_failures_total", "Batches the broker did not confirm.")
        self.canary_late = self._gauge("canary_late_seconds", "How late the last delayed message to ourselves came.")
        self.is_leader = self._gauge("relay_is_leader", "1 while this relay holds the lease.")

    def _send(self) -> None:
        self.resolved = self._counter(
            "resolved_total",
            "Rows brought to an end, by category, status and reason.",
            "category",
            "status",
            "reason",
        )
        self.accepted = self._counter("accepted_total", "Rows that Expo gave a ticket for.", "category")
        self.frames = self._counter("frames_total", "Broker messages handled, by result.", "result")
        self.claims_lost = self._counter("claims_lost_total", "Rows a mark found no longer ours.")
        self.unknown_outcomes = self._counter(
            "unknown_outcomes_total", "Rows whose request ended in an unknown outcome."
        )
        self.requests = self._counter(
            "expo_requests_total", "Requests to Expo, by kind and outcome.", "kind", "outcome"
        )
        self.request_seconds = self._histogram("expo_request_seconds", "How long Expo took to answer.", _SECONDS)
        self.permit_seconds = self._histogram(
            "permit_wait_seconds", "How long a batch waited for its permit.", _SECONDS
        )
        self.lateness = self._histogram("lateness_seconds", "From the planned instant to the request.", _LATENESS)
        self.breaker_open = self._gauge("expo_breaker_open", "1 while no request is made because Expo does not answer.")

    def _receipts(self) -> None:
        self.receipts = self._counter("receipts_total", "Receipts read, by result.", "result")
        self.tokens_retired = self._counter("tokens_retired_total", "Tokens retired, by reason.", "reason")
        self.retire_brake = self._counter(
            "retire_brake_total", "Times an implausible share of dead devices was not believed."
        )
