"""The client against the sandbox: every fault there is has the outcome that the promises need."""

from collections import Counter

import pytest

from consumer.domain.outcomes import (
    Accepted,
    Answered,
    CredentialsRefused,
    ItemsInvalid,
    NotSent,
    OutcomeUnknown,
    ProjectsMixed,
    Refused,
    TooMany,
    Unclear,
)
from consumer.expo.client import Receipt
from deploy.local.sandbox.faults import PER_RECIPIENT, SEND_ONLY, Fault
from shared.domain.states import Reason
from tests.integration.expo_requests import TOKENS, accepted, is_unknown, messages


def refused_one(reason, *, passing=False):
    wanted = Refused(reason, passing)
    return lambda outcome: isinstance(outcome, Answered) and list(outcome.outcomes) == [wanted] * 3


SENDS = {
    "refuse": ({"fault": "refuse"}, lambda o: isinstance(o, NotSent | OutcomeUnknown), 0),
    "rate_limited": ({"fault": "rate_limited"}, lambda o: isinstance(o, NotSent) and o.slow_down, 0),
    "server_error_before": ({"fault": "server_error_before"}, is_unknown, 0),
    "server_error_before 500": ({"fault": "server_error_before", "status": 500}, is_unknown, 0),
    "server_error_after": ({"fault": "server_error_after"}, is_unknown, 3),
    "server_error_after 504": ({"fault": "server_error_after", "status": 504}, is_unknown, 3),
    "close_after": ({"fault": "close_after"}, is_unknown, 3),
    "hang": ({"fault": "hang", "seconds": 0.3}, is_unknown, 3),
    "hang unaccepted": ({"fault": "hang", "seconds": 0.3, "accepted": False}, is_unknown, 0),
    "wrong_ticket_count": ({"fault": "wrong_ticket_count"}, is_unknown, 3),
    "too many tickets": ({"fault": "wrong_ticket_count", "by": 2}, is_unknown, 3),
    "not_json": ({"fault": "not_json"}, is_unknown, 3),
    "null_body": ({"fault": "null_body"}, is_unknown, 3),
    "missing_ticket_id": (
        {"fault": "missing_ticket_id"},
        lambda o: isinstance(o, Answered) and list(o.outcomes) == [Unclear()] * 3,
        3,
    ),
    "unauthorized": ({"fault": "unauthorized"}, lambda o: isinstance(o, CredentialsRefused), 0),
    "forbidden": ({"fault": "forbidden"}, lambda o: isinstance(o, CredentialsRefused), 0),
    "too_many_experience_ids": (
        {"fault": "too_many_experience_ids"},
        lambda o: (
            isinstance(o, ProjectsMixed) and set(o.projects) == set(TOKENS) and len(set(o.projects.values())) == 2
        ),
        0,
    ),
    "validation_error": ({"fault": "validation_error", "index": 1}, lambda o: o == ItemsInvalid(frozenset({1})), 0),
    "validation_error of another field": (
        {"fault": "validation_error", "index": 2, "field": "title"},
        lambda o: o == ItemsInvalid(frozenset({2})),
        0,
    ),
    "delay": ({"fault": "delay", "ms": 300}, lambda o: isinstance(o, Answered), 3),
    "receipt_missing": ({"fault": "receipt_missing"}, lambda o: isinstance(o, Answered), 3),
    "receipt_delayed": ({"fault": "receipt_delayed", "seconds": 9}, lambda o: isinstance(o, Answered), 3),
    "receipt_error": ({"fault": "receipt_error", "error": "ProviderError"}, lambda o: isinstance(o, Answered), 3),
    "trickle": ({"fault": "trickle", "ms": 1}, lambda o: isinstance(o, Answered), 3),
    **{
        f"ticket_error {name}": ({"fault": "ticket_error", "error": name}, refused_one(reason, passing=passing), 0)
        for name, reason, passing in [
            ("DeviceNotRegistered", Reason.DEVICE_NOT_REGISTERED, False),
            ("MessageTooBig", Reason.MESSAGE_TOO_BIG, False),
            ("MessageRateExceeded", Reason.RATE_EXCEEDED, True),
            ("MismatchSenderId", Reason.CREDENTIALS, False),
            ("InvalidCredentials", Reason.CREDENTIALS, False),
            ("SomethingNew", Reason.UNKNOWN_ERROR, False),
        ]
    },
    "ticket_error without details": (
        {"fault": "ticket_error", "error": "MessageTooBig", "details": False},
        refused_one(Reason.UNKNOWN_ERROR),
        0,
    ),
}


def test_every_fault_of_the_sandbox_is_tried():
    assert {Fault(order["fault"]) for order, _, _ in SENDS.values()} == set(Fault)


@pytest.mark.parametrize("name", SENDS)
def test_every_way_a_request_can_end_has_its_outcome(expo, client, name):
    order, is_right, expected = SENDS[name]
    expo.faults([{"times": 1, **order}])
    outcome = client.send(messages())
    assert is_right(outcome), outcome
    expo.wait_for_requests(lambda entries: len(entries) >= (0 if name == "refuse" else 1), 10)
    assert accepted(expo) == expected
    assert expo.fault_counts()[0]["fired"] == 1


@pytest.mark.parametrize("name", SENDS)
def test_the_client_works_again_after_it(expo, client, name):
    expo.faults([{"times": 1, **SENDS[name][0]}])
    client.send(messages())
    outcome = client.send(messages())
    assert isinstance(outcome, Answered)
    assert all(isinstance(one, Accepted) for one in outcome.outcomes)


def test_tickets_stand_in_the_order_of_the_messages(expo, client):
    expo.faults([{"fault": "ticket_error", "error": "DeviceNotRegistered", "tokens": [TOKENS[1]]}])
    first, second, third = client.send(messages()).outcomes
    assert isinstance(first, Accepted)
    assert second == Refused(Reason.DEVICE_NOT_REGISTERED)
    assert isinstance(third, Accepted)
    by_message = {entry["messageId"]: entry["ticketId"] for entry in expo.ledger() if entry["status"] == "ok"}
    assert by_message == {"m0": first.ticket_id, "m2": third.ticket_id}


def test_a_full_request_of_a_hundred_is_one_request(expo, client):
    assert isinstance(client.send(messages([f"ExponentPushToken[many-{number}]" for number in range(100)])), Answered)
    assert [request["recipients"] for request in expo.requests()] == [100]


def test_one_message_more_is_never_made_into_two_requests_with_one_outcome(expo, client):
    many = [f"ExponentPushToken[many-{number}]" for number in range(101)]
    assert client.send(messages(many)) == TooMany()
    assert expo.requests() == []


def test_tokens_of_two_projects_are_told_apart(client):
    mixed = ["ExponentPushToken[a@garden]", "ExponentPushToken[b@kitchen]"]
    outcome = client.send(messages(mixed))
    assert isinstance(outcome, ProjectsMixed)
    assert Counter(outcome.projects.values()) == {"@sandbox/garden": 1, "@sandbox/kitchen": 1}


# --- receipts -------------------------------------------------------------------------------------------------


def ticket_ids(client):
    return [outcome.ticket_id for outcome in client.send(messages()).outcomes]


def test_receipts_of_what_was_taken(client):
    ids = ticket_ids(client)
    receipts = client.receipts(ids)
    assert {receipt.ticket_id: receipt.outcome for receipt in receipts} == {one: Accepted(one) for one in ids}


def test_receipts_that_are_not_there_are_absent(expo, client):
    expo.faults([{"fault": "receipt_missing", "tokens": [TOKENS[0]]}])
    ids = ticket_ids(client)
    assert {receipt.ticket_id for receipt in client.receipts([*ids, "never-heard-of"])} == set(ids[1:])


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("DeviceNotRegistered", Refused(Reason.DEVICE_NOT_REGISTERED)),
        ("MessageTooBig", Refused(Reason.MESSAGE_TOO_BIG)),
        ("MessageRateExceeded", Refused(Reason.RATE_EXCEEDED, passing=True)),
        ("MismatchSenderId", Refused(Reason.CREDENTIALS)),
        ("InvalidCredentials", Refused(Reason.CREDENTIALS)),
        ("DeveloperError", Refused(Reason.INVALID_PAYLOAD)),
        ("ProviderError", Refused(Reason.PROVIDER_ERROR, passing=True)),
        ("ExpoError", Refused(Reason.PROVIDER_ERROR, passing=True)),
        ("SomethingNew", Refused(Reason.UNKNOWN_ERROR)),
    ],
)
def test_receipt_errors_have_their_meaning(expo, client, name, refused):
    expo.faults([{"fault": "receipt_error", "error": name, "tokens": [TOKENS[0]]}])
    ids = ticket_ids(client)
    assert Receipt(ids[0], refused) in client.receipts(ids)


@pytest.mark.parametrize("fault", sorted(set(Fault) - SEND_ONLY - PER_RECIPIENT - {Fault.DELAY, Fault.TRICKLE}))
def test_receipts_that_cannot_be_read_are_an_outcome_and_can_be_asked_again(expo, client, fault):
    ids = ticket_ids(client)
    order = {"fault": fault, "on": "receipts", "times": 1}
    expo.faults([order | ({"seconds": 0.3} if fault is Fault.HANG else {})])
    assert not isinstance(client.receipts(ids), list)
    assert len(client.receipts(ids)) == 3


def test_a_thousand_receipts_fit_one_request(client):
    assert client.receipts([f"ticket-{number}" for number in range(1000)]) == []
