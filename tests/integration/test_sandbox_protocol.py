import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

import pytest
import requests
from exponent_server_sdk import DeviceNotRegisteredError, PushClient, PushMessage, PushServerError, PushTicket

from deploy.local.sandbox.process import SandboxProcess

_TO = "ExponentPushToken[a]"
_SEND = "/--/api/v2/push/send"
_RECEIPTS = "/--/api/v2/push/getReceipts"


@pytest.fixture
def sandbox(expo):
    return expo


@pytest.fixture
def client(sandbox):
    with _session() as session:
        yield PushClient(host=sandbox.url, session=session, timeout=(3, 10))


def _session(**headers):
    session = requests.Session()
    session.trust_env = False
    session.headers.update({"content-type": "application/json"} | headers)
    return session


def _post(sandbox, path, body, **headers):
    with _session(**headers) as session:
        data = body if isinstance(body, bytes) else json.dumps(body)
        return session.post(sandbox.url + path, data=data, timeout=10)


def _messages(count, **fields):
    return [{"to": f"ExponentPushToken[{n}]", "data": {"messageId": f"m{n}"}, **fields} for n in range(count)]


def _code(answer):
    return answer.status_code, answer.json()["errors"][0]["code"]


def test_the_python_sdk_sends_in_chunks_and_reads_receipts(sandbox, client):
    messages = [PushMessage(to=f"ExponentPushToken[{n}]", title="é", data={"messageId": str(n)}) for n in range(250)]

    tickets = client.publish_multiple(messages)
    receipts = client.check_receipts_multiple(tickets)

    assert [ticket.status for ticket in tickets] == ["ok"] * 250
    assert {receipt.id for receipt in receipts if receipt.is_success()} == {ticket.id for ticket in tickets}
    assert len({ticket.id for ticket in tickets}) == 250
    ledger = sandbox.ledger()
    assert [entry["messageId"] for entry in ledger] == [str(n) for n in range(250)]
    assert [entry["ticketId"] for entry in ledger] == [ticket.id for ticket in tickets]
    assert [entry["recipients"] for entry in sandbox.requests()] == [100, 100, 50, 250]


def test_the_python_sdk_sees_a_dead_device(sandbox, client):
    sandbox.set_devices({_TO: {"state": "unregistered"}, "ExponentPushToken[b]": {"state": "gone"}})

    dead, gone = client.publish_multiple([PushMessage(to=_TO), PushMessage(to="ExponentPushToken[b]")])
    (receipt,) = client.check_receipts_multiple([gone])

    for answer in (dead, receipt):
        with pytest.raises(DeviceNotRegisteredError):
            answer.validate_response()
    assert [(entry["status"], entry["error"], entry["shown"]) for entry in sandbox.ledger()] == [
        ("error", "DeviceNotRegistered", False),
        ("ok", None, False),
    ]


def test_the_shape_of_the_answer_follows_the_request(sandbox):
    single = _post(sandbox, _SEND, {"to": _TO}).json()["data"]
    several = _post(sandbox, _SEND, {"to": [_TO, "ExpoPushToken[b]"]}).json()["data"]
    nothing = _post(sandbox, _SEND, []).json()

    assert single["status"] == "ok"
    assert [ticket["status"] for ticket in several] == ["ok", "ok"]
    assert nothing == {"data": []}


def test_gzip_is_read_and_noted(sandbox):
    packed = gzip.compress(json.dumps(_messages(3)).encode())

    answer = _post(sandbox, _SEND, packed, **{"content-encoding": "gzip"})

    assert len(answer.json()["data"]) == 3
    assert sandbox.requests()[-1]["gzip"] is True


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (_messages(100), 200, None),
        (_messages(101), 400, "PUSH_TOO_MANY_NOTIFICATIONS"),
        (
            [{"to": [f"ExponentPushToken[{n}]" for n in range(99)]}, *_messages(2)],
            400,
            "PUSH_TOO_MANY_NOTIFICATIONS",
        ),
        ([{"to": _TO, "data": "text"}], 400, "VALIDATION_ERROR"),
        (b"[NaN]", 400, "VALIDATION_ERROR"),
        (b" " * (8 * 1024 * 1024 + 1), 413, "PAYLOAD_TOO_LARGE"),
    ],
    ids=["100", "101", "list", "type", "NaN", "huge"],
)
def test_a_request_is_taken_whole_or_not_at_all(sandbox, body, status, code):
    answer = _post(sandbox, _SEND, body)

    assert answer.status_code == status
    assert code is None or _code(answer) == (status, code)
    assert len(sandbox.ledger()) == (100 if status == 200 else 0)
    assert sandbox.requests()[-1]["status"] == status


def test_the_validation_error_names_the_path(sandbox):
    answer = _post(sandbox, _SEND, [{"to": _TO}, {"to": _TO, "data": 5}])

    assert answer.json()["errors"][0]["message"].startswith('"[1].data"')


def test_the_content_type_matters(sandbox):
    assert _code(_post(sandbox, _SEND, [], **{"content-type": "text/plain"})) == (400, "VALIDATION_ERROR")


def test_one_bad_recipient_spoils_only_its_own_ticket(sandbox):
    big = {"to": _TO, "body": "é" * 2048}
    fits = {"to": _TO, "body": "x" * (4096 - len('{"body":""}'))}

    tickets = _post(sandbox, _SEND, [{"to": "nonsense"}, big, fits]).json()["data"]

    assert [ticket["status"] for ticket in tickets] == ["error", "error", "ok"]
    assert [ticket["details"]["error"] for ticket in tickets[:2]] == ["DeviceNotRegistered", "MessageTooBig"]
    assert "is not a valid Expo push token" in tickets[0]["message"]
    assert [entry["status"] for entry in sandbox.ledger()] == ["error", "error", "ok"]


def test_projects_do_not_mix(sandbox):
    sandbox.set_devices({_TO: {"project": "@me/shop"}})
    tokens = [_TO, "ExponentPushToken[b@garden]", "ExponentPushToken[c@garden]", "nonsense"]

    answer = _post(sandbox, _SEND, [{"to": tokens}])

    assert _code(answer) == (400, "PUSH_TOO_MANY_EXPERIENCE_IDS")
    assert answer.json()["errors"][0]["details"] == {"@me/shop": tokens[:1], "@sandbox/garden": tokens[1:3]}
    assert sandbox.ledger() == []
    assert _post(sandbox, _SEND, [{"to": tokens[1:]}]).status_code == 200


def test_receipts_come_a_thousand_at_a_time_and_unknown_ones_are_absent(sandbox):
    tickets = [ticket["id"] for ticket in _post(sandbox, _SEND, _messages(10)).json()["data"]]
    unknown = [f"unknown-{n}" for n in range(990)]

    found = _post(sandbox, _RECEIPTS, {"ids": tickets + unknown})
    too_many = _post(sandbox, _RECEIPTS, {"ids": [*tickets, *unknown, "one more"]})

    assert found.json()["data"] == {ticket: {"status": "ok"} for ticket in tickets}
    assert _code(too_many) == (400, "PUSH_TOO_MANY_RECEIPTS")


def test_an_access_token_is_demanded_on_both_endpoints():
    with SandboxProcess("--access-token=secret") as strict:
        for path, body in ((_SEND, [{"to": _TO}]), (_RECEIPTS, {"ids": []})):
            missing = _post(strict, path, body)
            wrong = _post(strict, path, body, authorization="Bearer guess")
            right = _post(strict, path, body, authorization="Bearer secret")

            assert _code(missing) == (403, "UNAUTHORIZED")
            assert (wrong.status_code, wrong.json()["error"], "errors" in wrong.json()) == (
                401,
                "invalid_token",
                False,
            )
            assert right.status_code == 200
        assert len(strict.ledger()) == 1


def test_600_recipients_in_any_second():
    with SandboxProcess() as strict:
        began = time.monotonic()
        answers = [_post(strict, _SEND, _messages(100)) for _ in range(7)]
        assert time.monotonic() - began < 1, "too slow a machine to judge"

        assert [answer.status_code for answer in answers] == [200] * 6 + [429]
        assert _code(answers[-1]) == (429, "TOO_MANY_REQUESTS")
        assert len(strict.ledger()) == 600
        first = strict.requests()[0]["at"]
        time.sleep(1.0 - (time.monotonic() - began) + 0.2)
        assert _post(strict, _SEND, _messages(100)).status_code == 200, f"room again a second after {first}"


def test_six_requests_at_the_same_time(sandbox):
    sandbox.faults([{"fault": "delay", "ms": 600, "times": 6}])

    with ThreadPoolExecutor(7) as pool:
        answers = list(pool.map(lambda _: _post(sandbox, _SEND, _messages(1)).status_code, range(7)))

    assert sorted(answers) == [200] * 6 + [429]
    refused = [entry for entry in sandbox.requests() if entry["status"] == 429]
    assert [(entry["in_flight"], entry["fault"]) for entry in refused] == [(7, None)]
    assert _post(sandbox, _SEND, _messages(1)).status_code == 200


def test_a_client_that_leaves_frees_its_place(sandbox):
    sandbox.faults([{"fault": "hang", "seconds": 60}])
    for _ in range(6):
        with pytest.raises(requests.ReadTimeout), _session() as session:
            session.post(sandbox.url + _SEND, data=json.dumps(_messages(1)), timeout=(3, 0.05))
    abandoned = sandbox.wait_for_requests(lambda entries: len(entries) == 6, timeout=5)
    sandbox.faults([])

    assert {(entry["status"], entry["fault"]) for entry in abandoned} == {(None, "hang")}
    assert _post(sandbox, _SEND, _messages(1)).status_code == 200
    assert sandbox.requests()[-1]["in_flight"] == 1


def test_a_body_that_never_ends_is_given_up_with_its_client(sandbox):
    connection = HTTPConnection("127.0.0.1", int(sandbox.url.rpartition(":")[2]), timeout=5)
    connection.putrequest("POST", _SEND)
    connection.putheader("content-type", "application/json")
    connection.putheader("content-length", "1000")
    connection.endheaders(b"[")
    connection.close()

    (entry,) = sandbox.wait_for_requests(bool, timeout=5)

    assert (entry["status"], entry["recipients"]) == (None, 0)


def test_what_owners_see_is_in_the_ledger_and_on_the_phone(sandbox, client):
    sandbox.set_devices({_TO: {"platform": "android"}})
    past = int(time.time()) - 5
    for fields in ({"tag": "x"}, {"tag": "x", "title": "newer"}, {"expiration": past}):
        _post(sandbox, _SEND, {"to": _TO, **fields})

    assert [entry["shown"] for entry in sandbox.ledger()] == [True, False, False]
    seen = sandbox.devices([_TO])[_TO]
    assert (seen["arrivals"], seen["expired"], len(seen["shown"])) == (2, 1, 1)
    assert (seen["shown"][0]["title"], seen["shown"][0]["replaced"]) == ("newer", 1)
    assert isinstance(client.publish(PushMessage(to=_TO)), PushTicket)


def test_small_answers_do_not_wait_for_acknowledgements(sandbox):
    connection = HTTPConnection("127.0.0.1", int(sandbox.url.rpartition(":")[2]), timeout=5)
    spans = []
    for _ in range(15):
        began = time.monotonic()
        connection.request("POST", _RECEIPTS, '{"ids": []}', {"content-type": "application/json"})
        connection.getresponse().read()
        spans.append(time.monotonic() - began)
    connection.close()

    assert sorted(spans)[7] < 0.03


def test_unknown_paths_and_methods_are_refused(sandbox, client):
    with _session() as session:
        assert session.get(sandbox.url + _SEND, timeout=5).status_code == 405
        assert session.post(sandbox.url + "/--/api/v2/push", timeout=5).status_code == 404
    client.api_url = "/--/api/v3"
    with pytest.raises((PushServerError, requests.HTTPError)):
        client.publish(PushMessage(to=_TO))
