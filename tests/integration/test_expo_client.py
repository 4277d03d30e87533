"""The client against the sandbox: every fault there is has the outcome that the promises need."""

import gzip
import http.server
import json
import threading
import time
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
from consumer.expo.client import ExpoClient, Receipt
from consumer.expo.payload import ExpoMessage
from deploy.local.ports import free_port
from deploy.local.sandbox.faults import PER_RECIPIENT, SEND_ONLY, Fault
from deploy.local.sandbox.process import SandboxProcess
from shared.domain.states import Reason

TOKENS = [f"ExponentPushToken[client-{number}]" for number in range(3)]


def messages(tokens=TOKENS, **fields):
    return [
        ExpoMessage(token, {"to": token, "title": "t", "data": {"messageId": f"m{number}"}, **fields})
        for number, token in enumerate(tokens)
    ]


@pytest.fixture(scope="module")
def running():
    with SandboxProcess("--rate=0", "--receipt-delay=0") as process:
        yield process


@pytest.fixture
def expo(running):
    running.reset()
    yield running
    running.reset()


@pytest.fixture
def client(expo):
    return ExpoClient(expo.url, 5.0)


def accepted(expo):
    return sum(entry["status"] == "ok" for entry in expo.ledger())


def is_unknown(outcome):
    return isinstance(outcome, OutcomeUnknown)


def is_not_sent(outcome):
    return isinstance(outcome, NotSent) and not outcome.slow_down


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
    if name in {"hang", "hang unaccepted"}:
        pytest.skip("its connection is cut like that of close_after")
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


# --- in time, in one piece ------------------------------------------------------------------------------------


def test_a_trickling_answer_is_cut_at_the_total_deadline(expo):
    expo.faults([{"fault": "trickle", "ms": 200}])
    asked = time.monotonic()
    outcome = ExpoClient(expo.url, 1.0).send(messages())
    assert is_unknown(outcome)
    assert 0.8 < time.monotonic() - asked < 3


def test_a_silent_answer_is_cut_at_the_total_deadline(expo):
    expo.faults([{"fault": "hang", "seconds": 3}])
    asked = time.monotonic()
    assert is_unknown(ExpoClient(expo.url, 0.7).send(messages()))
    assert 0.6 < time.monotonic() - asked < 3


def test_a_deadline_that_passed_does_not_cut_the_next_request(expo):
    client = ExpoClient(expo.url, 0.8)
    assert isinstance(client.send(messages()), Answered)
    threading.Event().wait(1.0)
    assert isinstance(client.send(messages()), Answered)


def test_nobody_listens_is_not_sent():
    outcome = ExpoClient(f"http://127.0.0.1:{free_port()}", 5.0).send(messages())
    assert is_not_sent(outcome)


def test_a_name_that_does_not_exist_is_not_sent():
    assert is_not_sent(ExpoClient("http://nowhere.invalid", 5.0).send(messages()))


def test_tls_to_a_server_without_it_is_not_sent(expo):
    assert is_not_sent(ExpoClient(expo.url.replace("http:", "https:"), 5.0).send(messages()))


def test_a_service_that_went_away_between_two_requests():
    with SandboxProcess("--rate=0") as other:
        client = ExpoClient(other.url, 5.0)
        assert isinstance(client.send(messages()), Answered)
        other.kill()
        assert isinstance(client.send(messages()), NotSent | OutcomeUnknown)
        other.stop()


def test_requests_are_compressed(expo, client):
    client.send(messages())
    (request,) = expo.requests()
    assert request["gzip"] is True


def test_every_thread_has_a_connection_of_its_own(expo, client):
    outcomes = []
    threads = [threading.Thread(target=lambda: outcomes.append(client.send(messages()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(outcomes) == 8
    assert all(isinstance(one, Answered) for one in outcomes)
    assert accepted(expo) == 24


# --- towards strangers ----------------------------------------------------------------------------------------


class Stranger:
    """An HTTP server that answers every POST the same way and keeps what it was sent."""

    def __init__(self, status, headers=(), body=b"{}"):
        seen = self.seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                content = self.rfile.read(int(self.headers["content-length"]))
                seen.append((self.path, dict(self.headers.items()), content))
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stranger():
    started = []

    def start(*arguments, **options):
        started.append(Stranger(*arguments, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(expo, stranger, status):
    there = stranger(status, [("location", f"{expo.url}/--/api/v2/push/send")])
    assert is_not_sent(ExpoClient(there.url, 5.0, "secret").send(messages()))
    assert len(there.seen) == 1
    assert expo.requests() == []


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b"not found", NotSent),
        (413, b"", NotSent),
        (400, b"", NotSent),
        (400, b'{"errors": []}', NotSent),
        (400, b'{"errors": [{"code": "NEW", "message": "?"}]}', NotSent),
        (400, b'{"errors": "x"}', NotSent),
        (200, b"", OutcomeUnknown),
        (200, b"[]", OutcomeUnknown),
        (200, b"5", OutcomeUnknown),
        (200, b'{"data": null}', OutcomeUnknown),
        (200, b'{"data": {}}', OutcomeUnknown),
        (200, b'{"data": [1, 2, 3]}', OutcomeUnknown),
        (200, b'{"data": [null, null, null]}', OutcomeUnknown),
        (200, b'{"errors": [{"code": "X"}]}', OutcomeUnknown),
        (200, b"\xff\xfe", OutcomeUnknown),
        (500, b"", OutcomeUnknown),
        (502, b"<html>", OutcomeUnknown),
    ],
)
def test_whatever_a_stranger_says_has_an_outcome(stranger, status, body, kind):
    outcome = ExpoClient(stranger(status, body=body).url, 5.0).send(messages())
    assert isinstance(outcome, kind), outcome


def test_strange_tickets_are_unclear_one_by_one(stranger):
    body = json.dumps({"data": [{"status": "ok", "id": 5}, {"status": "maybe"}, {"status": "ok", "id": "t"}]})
    outcome = ExpoClient(stranger(200, body=body.encode()).url, 5.0).send(messages())
    assert list(outcome.outcomes) == [Unclear(), Unclear(), Accepted("t")]


def test_the_body_is_what_was_asked_for_and_the_access_token_goes_along(stranger):
    there = stranger(200, body=b'{"data": []}')
    ExpoClient(there.url, 5.0, "the-token").send(messages(title="Frühstück"))
    ((path, headers, content),) = there.seen
    headers = {name.lower(): value for name, value in headers.items()}
    assert path == "/--/api/v2/push/send"
    assert headers["authorization"] == "Bearer the-token"
    assert headers["content-type"] == "application/json"
    assert [one["title"] for one in json.loads(gzip.decompress(content))] == ["Frühstück"] * 3


def test_without_an_access_token_none_is_sent(stranger):
    there = stranger(200, body=b'{"data": []}')
    ExpoClient(there.url, 5.0).send(messages())
    assert "authorization" not in {name.lower() for name in there.seen[0][1]}


def test_proxies_and_netrc_of_the_environment_are_ignored(expo, stranger, monkeypatch, tmp_path):
    proxy = stranger(500)
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login x password y\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    there = stranger(200, body=b'{"data": []}')
    ExpoClient(there.url, 5.0).send(messages())
    assert isinstance(ExpoClient(expo.url, 5.0).send(messages()), Answered)
    assert proxy.seen == []
    assert "authorization" not in {name.lower() for name in there.seen[0][1]}


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
