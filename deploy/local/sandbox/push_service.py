"""The judge: what Expo answers to one request, decided at one moment, with all that follows from it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.local.sandbox import answers
from deploy.local.sandbox.acceptance import Acceptance
from deploy.local.sandbox.answers import Answer
from deploy.local.sandbox.bodies import BodySizeError, decode_body
from deploy.local.sandbox.devices import Devices, is_push_token
from deploy.local.sandbox.fault_book import FaultBook, Struck
from deploy.local.sandbox.faults import On
from deploy.local.sandbox.faulty_answers import answer_instead, distort
from deploy.local.sandbox.journal import Journal
from deploy.local.sandbox.limits import InFlight, SlidingSecond
from deploy.local.sandbox.messages import RequestError, Submission, read_receipt_ids, read_submission
from deploy.local.sandbox.moments import Moment, iso
from deploy.local.sandbox.receipts import Receipts

MAX_RECIPIENTS = 100
MAX_RECEIPT_IDS = 1000


@dataclass(frozen=True, slots=True)
class Limits:
    """What the stand-in demands of its callers."""

    rate: int = 600
    """Recipients within any one second; 0 for no limit."""
    connections: int = 6
    """Requests at the same time; 0 for no limit."""
    access_token: str | None = None
    receipt_delay: float = 0.0
    """Seconds from a ticket to its receipt."""
    ledger_file: Path | None = None


@dataclass(slots=True)
class Request:
    """One request to the push endpoints, as far as its head tells, and what became of it."""

    number: int
    kind: On
    arrived: Moment
    in_flight: int
    authorization: str | None = None
    content_type: str = ""
    gzipped: bool = False
    recipients: int = 0
    faults: list[str] = field(default_factory=list)


class PushService:
    """All state of the stand-in; each method runs to its end on the event loop, so requests cannot mix."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.devices = Devices()
        self.faults = FaultBook()
        self.ledger = Journal(limits.ledger_file)
        self.requests = Journal()
        self.in_flight = InFlight(limits.connections)
        self._window = SlidingSecond(limits.rate)
        self._receipts = Receipts(limits.receipt_delay)
        self._arrived = 0

    def arrive(self, kind: On, headers: Mapping[str, str], in_flight: int) -> Request:
        """Give a request its number as soon as its head is there."""
        self._arrived += 1
        return Request(
            number=self._arrived,
            kind=kind,
            arrived=Moment.now(),
            in_flight=in_flight,
            authorization=headers.get("authorization"),
            content_type=headers.get("content-type", ""),
            gzipped=headers.get("content-encoding", "").strip().lower() == "gzip",
        )

    def judge(self, request: Request, raw: bytes, moment: Moment) -> Answer:
        """The answer to a request whose body was read; all it accepts is in the ledger when this returns."""
        refusal = self._refusal_by_head(request)
        if refusal is not None:
            return refusal
        try:
            body = decode_body(raw, gzipped=request.gzipped)
            if request.kind is On.RECEIPTS:
                return self._judge_receipts(request, read_receipt_ids(body), moment)
            return self._judge_send(request, body, moment)
        except RequestError as problem:
            return answers.validation_error(str(problem))
        except BodySizeError:
            return answers.error(413, "PAYLOAD_TOO_LARGE", "The request body is too large")

    def depart(self, request: Request, status: int | None, moment: Moment) -> None:
        """Write down what became of a request; status None means that it got no answer."""
        line = {
            "at": iso(request.arrived.milliseconds),
            "request": request.number,
            "kind": request.kind,
            "recipients": request.recipients,
            "status": status,
            "fault": "+".join(request.faults) or None,
            "gzip": request.gzipped,
            "in_flight": request.in_flight,
            "seconds": round(moment.steady - request.arrived.steady, 6),
        }
        self.requests.extend([json.dumps(line, separators=(",", ":")).encode()])

    def _refusal_by_head(self, request: Request) -> Answer | None:
        if self.in_flight.is_over(request.in_flight):
            return answers.too_many_requests("Too many requests at the same time.")
        wanted = self.limits.access_token
        if wanted is not None and request.authorization is None:
            return answers.forbidden()
        if wanted is not None and request.authorization != f"Bearer {wanted}":
            return answers.invalid_token()
        if request.content_type.split(";")[0].strip().lower() != "application/json":
            return answers.validation_error("The content type must be application/json")
        return None

    def _judge_receipts(self, request: Request, ticket_ids: list[str], moment: Moment) -> Answer:
        request.recipients = len(ticket_ids)
        if len(ticket_ids) > MAX_RECEIPT_IDS:
            reason = f"At most {MAX_RECEIPT_IDS} receipts can be asked for at a time."
            return answers.error(400, "PUSH_TOO_MANY_RECEIPTS", reason)
        struck = self._strike(request, [], moment)
        found = answers.data(self._receipts.look_up(ticket_ids, moment.steady))
        return answer_instead(struck, []) or distort(struck, found)

    def _judge_send(self, request: Request, body: object, moment: Moment) -> Answer:
        submission = read_submission(body)
        recipients = submission.recipients
        request.recipients = len(recipients)
        # Before the faults, so that a request refused anyway uses up no order.
        refusal = self._refusal_by_limits(recipients, moment)
        if refusal is not None:
            return refusal
        struck = self._strike(request, recipients, moment)
        instead = answer_instead(struck, recipients)
        if instead is not None:
            return instead
        self._window.admit(len(recipients), moment.steady)
        return distort(struck, answers.data(self._accept(request, submission, moment)))

    def _accept(self, request: Request, submission: Submission, moment: Moment) -> object:
        faults = self.faults.for_recipients(moment.steady)
        acceptance = Acceptance(self.devices, self._receipts, faults, moment, request.number)
        tickets = [ticket for message in submission.messages for ticket in acceptance.accept(message)]
        request.faults += faults.names
        self.ledger.extend(acceptance.lines)
        return tickets[0] if submission.single and len(tickets) == 1 else tickets

    def _strike(self, request: Request, recipients: list[str], moment: Moment) -> Struck:
        struck = self.faults.strike_request(request.kind, recipients, moment.steady)
        request.faults += struck.names
        return struck

    def _refusal_by_limits(self, recipients: list[str], moment: Moment) -> Answer | None:
        if len(recipients) > MAX_RECIPIENTS:
            reason = f"At most {MAX_RECIPIENTS} recipients fit into one request, not {len(recipients)}."
            return answers.error(400, "PUSH_TOO_MANY_NOTIFICATIONS", reason)
        by_project = self._by_project(recipients)
        if len(by_project) > 1:
            return answers.too_many_experience_ids(by_project)
        if not self._window.has_room(len(recipients), moment.steady):
            return answers.too_many_requests(f"More than {self.limits.rate} recipients within a second.")
        return None

    def _by_project(self, recipients: list[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for token in recipients:
            if is_push_token(token):
                found.setdefault(self.devices.project(token), []).append(token)
        return found
