"""Taking in the messages of one request: tickets for the sender, receipts for later, lines for the ledger."""

import json
from typing import Any

from deploy.local.sandbox.answers import error_result
from deploy.local.sandbox.devices import Arrival, Devices, State, is_push_token
from deploy.local.sandbox.fault_book import RecipientFaults
from deploy.local.sandbox.faults import Fault
from deploy.local.sandbox.messages import MAX_PAYLOAD_BYTES, Message
from deploy.local.sandbox.moments import Moment, iso
from deploy.local.sandbox.receipts import Outcome, Receipts

_NOT_REGISTERED = "DeviceNotRegistered"
_Struck = dict[Fault, dict[str, Any]]


class Acceptance:
    """One request on its way in; collects the ledger's lines."""

    def __init__(
        self, devices: Devices, receipts: Receipts, faults: RecipientFaults, moment: Moment, request: int
    ) -> None:
        self.lines: list[bytes] = []
        self._devices = devices
        self._receipts = receipts
        self._faults = faults
        self._moment = moment
        self._request = request
        self._at = iso(moment.milliseconds)

    def accept(self, message: Message) -> list[dict[str, Any]]:
        """One ticket per recipient, in order."""
        return [self._ticket(message, token) for token in message.recipients]

    def _ticket(self, message: Message, token: str) -> dict[str, Any]:
        struck = self._faults.strike(token, message.message_id) if self._faults else {}
        refused = self._refused(message, token, struck)
        if refused is not None:
            self._record(message, token, refused, None)
            return refused
        device = self._devices[token]
        ticket_id = self._receipts.issue(self._moment.steady, _outcome(device.state, token, struck))
        ticket = {"status": "ok", "id": ticket_id}
        arrival = self._devices.receive(token, message.fields, message.message_id, self._moment)
        self._record(message, token, ticket, arrival)
        return {"status": "ok"} if Fault.MISSING_TICKET_ID in struck else ticket

    def _refused(self, message: Message, token: str, struck: _Struck) -> dict[str, Any] | None:
        if not is_push_token(token):
            return error_result(_NOT_REGISTERED, f'"{token}" is not a valid Expo push token', token)
        if message.size > MAX_PAYLOAD_BYTES:
            text = f"The payload has {message.size} bytes; at most {MAX_PAYLOAD_BYTES} are possible"
            return error_result("MessageTooBig", text)
        if self._devices[token].state is State.UNREGISTERED:
            return error_result(_NOT_REGISTERED, f'"{token}" is not a registered push notification recipient', token)
        return _ordered_error(struck.get(Fault.TICKET_ERROR), token)

    def _record(self, message: Message, token: str, ticket: dict[str, Any], arrival: Arrival | None) -> None:
        fields = message.fields
        line = {
            "at": self._at,
            "messageId": message.message_id,
            "token": token,
            "status": ticket["status"],
            "shown": arrival is Arrival.SHOWN,
            "error": None if ticket["status"] == "ok" else ticket.get("details", {}).get("error", "unknown"),
            "title": fields.get("title"),
            "collapseId": fields.get("collapseId"),
            "tag": fields.get("tag"),
            "ticketId": ticket.get("id"),
            "expiration": fields.get("expiration"),
            "request": self._request,
        }
        self.lines.append(json.dumps(line, separators=(",", ":")).encode())


def _outcome(state: State, token: str, struck: _Struck) -> Outcome | None:
    receipt = _ordered_error(struck.get(Fault.RECEIPT_ERROR), token)
    if state is State.GONE:
        receipt = error_result(_NOT_REGISTERED, f'The device of "{token}" is no longer registered', token)
    missing = Fault.RECEIPT_MISSING in struck
    delay = struck.get(Fault.RECEIPT_DELAYED, {}).get("seconds")
    return Outcome(receipt, missing, delay) if receipt or missing or delay is not None else None


def _ordered_error(parameters: dict[str, Any] | None, token: str) -> dict[str, Any] | None:
    if parameters is None:
        return None
    code = parameters["error"] if parameters["details"] else None
    return error_result(code, parameters["message"], token if code == _NOT_REGISTERED else None)
