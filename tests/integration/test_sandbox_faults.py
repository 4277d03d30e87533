import json
import time
from pathlib import Path

import pytest
import requests

from deploy.local.sandbox.faults import Fault
from deploy.local.sandbox.process import SandboxError

_SEND = "/--/api/v2/push/send"
_RECEIPTS = "/--/api/v2/push/getReceipts"
_BODY = [{"to": f"ExponentPushToken[{n}]", "data": {"messageId": f"m{n}"}} for n in range(3)]
_NO_ANSWER = (requests.ConnectionError, requests.exceptions.ChunkedEncodingError)


@pytest.fixture
def sandbox(expo):
    return expo


@pytest.fixture
def post(sandbox):
    with requests.Session() as session:
        session.trust_env = False
        session.headers["content-type"] = "application/json"

        def send(path=_SEND, body=_BODY, timeout=10.0):
            return session.post(sandbox.url + path, data=json.dumps(body), timeout=timeout)

        yield send


def _is_html(status):
    return lambda answer: answer.status_code == status and answer.text.startswith("<!DOCTYPE html>")


def _is_error(status, code):
    return lambda answer: answer.status_code == status and answer.json()["errors"][0]["code"] == code


_REFUSALS = {
    Fault.RATE_LIMITED: _is_error(429, "TOO_MANY_REQUESTS"),
    Fault.SERVER_ERROR_BEFORE: _is_html(503),
    Fault.FORBIDDEN: _is_error(403, "UNAUTHORIZED"),
    Fault.UNAUTHORIZED: lambda answer: answer.status_code == 401 and "errors" not in answer.json(),
    Fault.TOO_MANY_EXPERIENCE_IDS: _is_error(400, "PUSH_TOO_MANY_EXPERIENCE_IDS"),
    Fault.VALIDATION_ERROR: _is_error(400, "VALIDATION_ERROR"),
}
_SPOILT = {
    Fault.SERVER_ERROR_AFTER: _is_html(503),
    Fault.NOT_JSON: _is_html(200),
    Fault.NULL_BODY: lambda answer: answer.json() is None,
    Fault.WRONG_TICKET_COUNT: lambda answer: len(answer.json()["data"]) == 2,
    Fault.MISSING_TICKET_ID: lambda answer: answer.json()["data"] == [{"status": "ok"}] * 3,
}


@pytest.mark.parametrize("fault", _REFUSALS)
def test_a_refusal_accepts_nothing_and_is_over_after_its_times(sandbox, post, fault):
    sandbox.faults([{"fault": fault, "times": 1}])

    assert _REFUSALS[fault](post())
    assert sandbox.ledger() == []
    assert len(post().json()["data"]) == 3
    assert [entry["fault"] for entry in sandbox.requests()] == [fault, None]


@pytest.mark.parametrize("fault", _SPOILT)
def test_a_spoilt_answer_was_accepted_all_the_same(sandbox, post, fault):
    sandbox.faults([{"fault": fault, "times": 1}])

    assert _SPOILT[fault](post())
    assert [entry["status"] for entry in sandbox.ledger()] == ["ok"] * 3
    assert sandbox.fault_counts()[0]["fired"] == 1


@pytest.mark.parametrize(
    ("order", "accepted"),
    [
        ({"fault": "refuse"}, 0),
        ({"fault": "close_after"}, 3),
        ({"fault": "hang", "seconds": 0.2}, 3),
        ({"fault": "hang", "seconds": 0.2, "accepted": False}, 0),
    ],
)
def test_a_connection_without_an_answer(sandbox, post, order, accepted):
    sandbox.faults([order | {"times": 1}])

    began = time.monotonic()
    with pytest.raises(_NO_ANSWER):
        post()

    assert time.monotonic() - began >= order.get("seconds", 0)
    assert len(sandbox.ledger()) == accepted
    assert [(entry["status"], entry["fault"]) for entry in sandbox.requests()] == [(None, order["fault"])]
    assert post().status_code == 200


def test_a_refused_connection_is_cut_even_under_a_long_body(sandbox, post):
    sandbox.faults([{"fault": "refuse", "times": 1}])

    with pytest.raises(_NO_ANSWER):
        post(body=[{"to": "ExponentPushToken[a]", "body": "x" * 4_000_000}])

    assert sandbox.requests()[0]["recipients"] == 0


def test_a_trickling_answer_outlasts_a_read_timeout_that_counts_single_bytes(sandbox, post):
    sandbox.faults([{"fault": "trickle", "ms": 3, "times": 1}])

    began = time.monotonic()
    answer = post(timeout=0.5)

    assert len(answer.json()["data"]) == 3
    assert time.monotonic() - began >= 0.003 * (len(answer.content) - 1)
    assert sandbox.requests()[0]["status"] == 200


def test_a_delay_holds_the_answer_not_the_acceptance(sandbox, post):
    sandbox.faults([{"fault": "delay", "ms": 5000}])

    with pytest.raises(requests.ReadTimeout):
        post(timeout=0.2)

    assert len(sandbox.ledger()) == 3
    (entry,) = sandbox.wait_for_requests(bool, timeout=5)
    assert (entry["status"], entry["fault"]) == (None, "delay")


def test_the_made_up_projects_share_out_all_recipients(sandbox, post):
    sandbox.faults([{"fault": "too_many_experience_ids", "times": 1}])

    details = post().json()["errors"][0]["details"]

    assert sorted(token for tokens in details.values() for token in tokens) == [item["to"] for item in _BODY]
    assert len(details) == 2


def test_the_validation_error_points_where_it_was_told(sandbox, post):
    sandbox.faults([{"fault": "validation_error", "index": 2, "field": "title"}])

    assert post().json()["errors"][0]["message"].startswith('"[2].title"')


def test_errors_for_single_recipients(sandbox, post):
    tokens = [item["to"] for item in _BODY]
    sandbox.faults(
        [
            {"fault": "ticket_error", "error": "MessageRateExceeded", "tokens": tokens[:1]},
            {
                "fault": "ticket_error",
                "error": "Odd",
                "details": False,
                "message": "odd",
                "tokens": tokens[1:2],
            },
        ]
    )

    tickets = post().json()["data"]

    assert tickets[0]["details"] == {"error": "MessageRateExceeded"}
    assert tickets[1] == {"status": "error", "message": "odd"}
    assert [entry["error"] for entry in sandbox.ledger()] == ["MessageRateExceeded", "unknown", None]
    assert [entry["fault"] for entry in sandbox.requests()] == ["ticket_error"]
    assert [order["recipients"] for order in sandbox.fault_counts()] == [1, 1]


def test_receipts_are_settled_when_the_ticket_is_made(sandbox, post):
    tokens = [item["to"] for item in _BODY]
    sandbox.faults(
        [
            {"fault": "receipt_error", "error": "ProviderError", "tokens": tokens[:1]},
            {"fault": "receipt_missing", "tokens": tokens[1:2]},
            {"fault": "receipt_delayed", "seconds": 3600, "tokens": tokens[2:]},
        ]
    )
    ids = [ticket["id"] for ticket in post().json()["data"]]
    sandbox.faults([])

    receipts = post(_RECEIPTS, {"ids": ids}).json()["data"]

    assert list(receipts) == ids[:1]
    assert receipts[ids[0]]["details"] == {"error": "ProviderError"}


def test_receipt_requests_fail_only_when_ordered_for_them(sandbox, post):
    sandbox.faults([{"fault": "server_error_before", "on": "receipts", "status": 504}])

    assert post().status_code == 200
    assert post(_RECEIPTS, {"ids": []}).status_code == 504


def test_a_request_that_is_refused_anyway_uses_up_no_order(sandbox, post):
    sandbox.faults([{"fault": "server_error_after", "times": 1}])

    assert post(body=[{"to": 1}]).status_code == 400
    assert post().status_code == 503


def test_a_bad_order_changes_nothing(sandbox, post):
    sandbox.faults([{"fault": "null_body"}])

    with pytest.raises(SandboxError, match=r"400.*\[1\]\.times"):
        sandbox.faults([{"fault": "hang"}, {"fault": "hang", "times": "many"}])
    with requests.Session() as session:
        assert session.put(sandbox.url + "/_faults", data="[", timeout=5).status_code == 400

    assert [order["fault"] for order in sandbox.fault_counts()] == ["null_body"]
    assert post().json() is None


def test_every_fault_is_exercised_here():
    text = Path(__file__).read_text(encoding="utf-8")
    named = {fault for fault in Fault if f'"{fault}"' in text}

    assert named | _REFUSALS.keys() | _SPOILT.keys() == set(Fault)
