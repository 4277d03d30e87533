"""Expo's push service through its official SDK, with every way it can end told apart.

`ExpoClient` never raises for what Expo does: each request has an outcome. Whatever is not understood after the first
byte has left is an unknown outcome, because it was perhaps accepted.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import requests
from exponent_server_sdk import PushClient, PushServerError, PushTicket

from consumer.domain.outcomes import (
    Accepted,
    Answered,
    CredentialsRefused,
    ItemsInvalid,
    MessageOutcome,
    NotSent,
    OutcomeUnknown,
    ProjectsMixed,
    RequestOutcome,
    TooMany,
    Unclear,
    refusal,
)
from consumer.expo.payload import ExpoMessage
from consumer.expo.session import ExpoSession

MAX_MESSAGES = 100
MAX_RECEIPTS = 1000
_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Receipt:
    """What Expo says of one ticket; `outcome` is Accepted when Apple or Google took the push."""

    ticket_id: str
    outcome: MessageOutcome


class ExpoClient:
    """Sends and asks for receipts. Safe for many threads: each has a session of its own."""

    def __init__(self, url: str, total_seconds: float, access_token: str = "") -> None:
        self._url, self._total_seconds, self._access_token = url, total_seconds, access_token
        self._local = threading.local()

    def _client(self) -> tuple[PushClient, ExpoSession]:
        if not hasattr(self._local, "client"):
            session = ExpoSession(self._total_seconds, self._access_token)
            self._local.client = PushClient(host=self._url, session=session, timeout=self._total_seconds)
            self._local.session = session
        return self._local.client, self._local.session

    def send(self, messages: Sequence[ExpoMessage]) -> RequestOutcome:
        """Post up to 100 messages of one project, in one request; more are TooMany without any request."""
        if len(messages) > MAX_MESSAGES:
            return TooMany()  # the SDK would make several requests of them, with one outcome for all
        client, session = self._client()
        try:
            tickets = client.publish_multiple(list(messages))
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of a strange answer has an outcome
            return _failed_request(error, session)
        return Answered([_message_outcome(ticket) for ticket in tickets])

    def receipts(self, ticket_ids: Sequence[str]) -> list[Receipt] | RequestOutcome:
        """Ask for up to 1,000 receipts; those not ready are absent. Asking changes nothing, so it can be repeated."""
        if len(ticket_ids) > MAX_RECEIPTS:
            return TooMany()
        client, session = self._client()
        tickets = [PushTicket(push_message=None, status="ok", message="", details=None, id=one) for one in ticket_ids]
        try:
            receipts = client.check_receipts_multiple(tickets)
            return [Receipt(str(receipt.id), _receipt_outcome(receipt)) for receipt in receipts]
        except Exception as error:  # noqa: BLE001 - as above
            return _failed_request(error, session)


def _message_outcome(ticket: Any) -> MessageOutcome:
    if ticket.status == "ok":
        return Accepted(ticket.id) if isinstance(ticket.id, str) and ticket.id else Unclear()
    return refusal(_error_name(ticket.details)) if ticket.status == "error" else Unclear()


def _receipt_outcome(receipt: Any) -> MessageOutcome:
    return Accepted(str(receipt.id)) if receipt.status == "ok" else refusal(_error_name(receipt.details))


def _error_name(details: object) -> object:
    return details.get("error") if isinstance(details, Mapping) else None


def _failed_request(error: Exception, session: ExpoSession) -> RequestOutcome:
    response = getattr(error, "response", None)
    why = type(error).__name__
    if not session.flight.sent:
        return NotSent(why)
    if not isinstance(response, requests.Response):
        return OutcomeUnknown(why)
    status = response.status_code
    if status == requests.codes.too_many_requests:
        return NotSent("429 too many requests", slow_down=True)
    if status in {requests.codes.unauthorized, requests.codes.forbidden}:
        return CredentialsRefused(f"{status}: Expo refuses the credentials")
    errors = getattr(error, "errors", None) if isinstance(error, PushServerError) else None
    if status == requests.codes.bad_request and isinstance(errors, list) and errors:
        return _bad_request(errors[0])
    if requests.codes.multiple_choices <= status < requests.codes.server_error:
        return NotSent(f"{status}: not a push service")
    return OutcomeUnknown(f"{status} {why}")


def _bad_request(error: object) -> RequestOutcome:
    code = error.get("code") if isinstance(error, Mapping) else None
    if code == "PUSH_TOO_MANY_EXPERIENCE_IDS" and isinstance(error, Mapping):
        details = error.get("details")
        if isinstance(details, Mapping):
            pairs = ((project, tokens) for project, tokens in details.items() if isinstance(tokens, list))
            return ProjectsMixed({str(token): str(project) for project, tokens in pairs for token in tokens})
    if code in {"PUSH_TOO_MANY_NOTIFICATIONS", "PUSH_TOO_MANY_RECEIPTS"}:
        return TooMany()
    message = str(error.get("message", "")) if isinstance(error, Mapping) else ""
    indexes = frozenset(int(digits) for digits in _INDEX.findall(message))
    return ItemsInvalid(indexes) if indexes else NotSent(f"400 {code}")
