"""The session under the client: in time, in one piece, to nobody but the address it was given."""

import gzip
import http.server
import json
import threading
import time

import pytest

from consumer.domain.outcomes import (
    Accepted,
    Answered,
    NotSent,
    OutcomeUnknown,
    Unclear,
)
from consumer.expo.client import ExpoClient
from deploy.local.ports import free_port
from deploy.local.sandbox.process import SandboxProcess
from tests.integration.expo_requests import accepted, is_not_sent, is_unknown, messages


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
