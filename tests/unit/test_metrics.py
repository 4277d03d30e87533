import json
import urllib.error
import urllib.request

import pytest
from prometheus_client import generate_latest

from shared.runtime.http import StatusServer
from shared.runtime.metrics import Metrics


def test_two_processes_in_one_interpreter_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.accepted.labels("meal").inc()
    assert other.registry.get_sample_value("punktlig_accepted_total", {"category": "meal"}) is None


def test_every_name_is_the_products_and_explained():
    for family in Metrics().registry.collect():
        assert family.name.startswith("punktlig_")
        assert family.documentation.endswith(".")


def test_labels_never_hold_what_grows_without_bound():
    bounded = {"category", "status", "reason", "action", "result", "kind", "outcome"}
    metrics = [value for value in vars(Metrics()).values() if hasattr(value, "_labelnames")]
    assert len(metrics) > 15
    assert {label for metric in metrics for label in metric._labelnames} <= bounded


@pytest.fixture
def page():
    metrics, complaints = Metrics(), {}
    server = StatusServer(0, metrics.registry, lambda: complaints, {"service": "relay"})

    def get(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
                return answer.status, answer.headers["content-type"], answer.read()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.headers["content-type"], answer.read()

    yield get, metrics, complaints
    server.close()


def test_metrics_are_those_of_the_process(page):
    get, metrics, _ = page
    metrics.accepted.labels("meal").inc(3)
    status, kind, body = get("/metrics")
    assert (status, body) == (200, generate_latest(metrics.registry))
    assert kind.startswith("text/plain")
    assert b'punktlig_accepted_total{category="meal"} 3.0' in body


def test_alive_and_ready(page):
    get, _, complaints = page
    assert json.loads(get("/healthz")[2]) == {"alive": True, "service": "relay"}
    status, _, body = get("/readyz")
    assert (status, json.loads(body)) == (200, {"ready": True, "cannot": {}, "service": "relay"})
    complaints["broker"] = "not connected"
    status, _, body = get("/readyz?full=1")
    assert status == 503
    assert json.loads(body) == {"ready": False, "cannot": {"broker": "not connected"}, "service": "relay"}
    assert get("/healthz")[0] == 200


def test_other_pages_are_not_there(page):
    get, _, _ = page
    status, _, body = get("/")
    assert status == 404
    assert b"/metrics" in body
