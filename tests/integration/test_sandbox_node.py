"""Expo's own SDK for Node against the sandbox: if it disagrees, the sandbox is wrong."""

import json
import os
import shutil
import subprocess

import pytest

_SDK = "expo-server-sdk@6.1.0"
_SCRIPT = """
import { Expo } from 'expo-server-sdk';
const order = JSON.parse(process.argv[2]);
const expo = new Expo({ accessToken: order.accessToken });
const raw = { httpMethod: 'post', body: order.raw, shouldCompress: () => false };
const calls = {
  send: async () => {
    const chunks = expo.chunkPushNotifications(order.messages);
    const tickets = await Promise.all(chunks.map((chunk) => expo.sendPushNotificationsAsync(chunk)));
    return { chunks: chunks.length, tickets: tickets.flat() };
  },
  sendUnchunked: () => expo.sendPushNotificationsAsync(order.messages),
  sendRaw: () => expo.requestAsync(process.env.EXPO_BASE_URL + '/--/api/v2/push/send', raw),
  receipts: () => expo.getPushNotificationReceiptsAsync(order.ids),
};
try {
  console.log(JSON.stringify({ value: await calls[order.call]() }));
} catch (e) {
  const { message, code, statusCode, details, errorData } = e;
  console.log(JSON.stringify({ error: { message, code, statusCode, details, errorData } }));
}
"""


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory):
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node and npm are not installed, so Expo's own SDK cannot be tried")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    (folder / "call.js").write_text(_SCRIPT)
    install = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", _SDK]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        pytest.skip(f"npm cannot install {_SDK}: {done.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture
def sandbox(expo):
    return expo


@pytest.fixture
def sdk(sandbox, node_folder):
    def call(name, **order):
        done = subprocess.run(
            ["node", "call.js", json.dumps({"call": name, **order})],
            cwd=node_folder,
            env=os.environ | {"EXPO_BASE_URL": sandbox.url, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return call


def _messages(count, **fields):
    return [{"to": f"ExponentPushToken[{n}]", "body": "hello", **fields} for n in range(count)]


def test_chunks_and_gzip(sandbox, sdk):
    value = sdk("send", messages=_messages(250))["value"]

    assert value["chunks"] == 3
    assert [ticket["status"] for ticket in value["tickets"]] == ["ok"] * 250
    assert sorted(entry["recipients"] for entry in sandbox.requests()) == [50, 100, 100]
    assert all(entry["gzip"] for entry in sandbox.requests())


def test_a_list_of_recipients_is_cut_into_chunks(sandbox, sdk):
    tokens = [f"ExpoPushToken[{n}]" for n in range(130)]

    value = sdk("send", messages=[{"to": tokens, "body": "hello"}])["value"]

    assert len({ticket["id"] for ticket in value["tickets"]}) == 130
    assert sorted(entry["recipients"] for entry in sandbox.requests()) == [30, 100]


@pytest.mark.parametrize("count", [100, 101])
def test_a_hundred_recipients_and_no_more(sandbox, sdk, count):
    answer = sdk("sendUnchunked", messages=_messages(count))

    if count == 100:
        assert len(answer["value"]) == 100
    else:
        assert answer["error"]["code"] == "PUSH_TOO_MANY_NOTIFICATIONS"
        assert sandbox.ledger() == []


def test_a_single_object_and_an_empty_array(sdk):
    assert sdk("sendRaw", raw=_messages(1)[0])["value"]["status"] == "ok"
    assert sdk("sendUnchunked", messages=[])["value"] == []


def test_a_bad_token_and_too_big_a_payload(sdk):
    tickets = sdk("sendUnchunked", messages=[{"to": "nonsense"}, *_messages(1, body="x" * 4096)])["value"]

    assert [ticket["details"]["error"] for ticket in tickets] == ["DeviceNotRegistered", "MessageTooBig"]


def test_a_malformed_message(sdk):
    error = sdk("sendUnchunked", messages=_messages(1, data="text"))["error"]

    assert (error["statusCode"], error["code"]) == (400, "VALIDATION_ERROR")
    assert '"[0].data"' in error["message"]


def test_the_sdk_tries_again_after_429(sandbox, sdk):
    sandbox.faults([{"fault": "rate_limited", "times": 1}])

    assert len(sdk("sendUnchunked", messages=_messages(2))["value"]) == 2
    assert [entry["status"] for entry in sandbox.requests()] == [429, 200]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("unauthorized", {"statusCode": 401}),
        ("forbidden", {"statusCode": 403, "code": "UNAUTHORIZED"}),
        ("server_error_after", {"statusCode": 503}),
        ("not_json", {"statusCode": 200}),
    ],
)
def test_whole_requests_that_fail(sandbox, sdk, fault, expected):
    sandbox.faults([{"fault": fault}])

    error = sdk("sendUnchunked", messages=_messages(1))["error"]

    assert {name: error.get(name) for name in expected} == expected
    assert (error.get("errorData") or {}).get("error") == ("invalid_token" if fault == "unauthorized" else None)


def test_mixed_projects(sdk):
    tokens = ["ExponentPushToken[a@one]", "ExponentPushToken[b@two]"]

    error = sdk("sendUnchunked", messages=[{"to": token} for token in tokens])["error"]

    assert error["code"] == "PUSH_TOO_MANY_EXPERIENCE_IDS"
    assert error["details"] == {"@sandbox/one": tokens[:1], "@sandbox/two": tokens[1:]}


def test_receipts_up_to_a_thousand(sdk):
    tickets = [ticket["id"] for ticket in sdk("sendUnchunked", messages=_messages(2))["value"]]
    ids = tickets + [f"none-{n}" for n in range(998)]

    assert sdk("receipts", ids=ids)["value"] == {ticket: {"status": "ok"} for ticket in tickets}
    assert sdk("receipts", ids=[*ids, "one more"])["error"]["code"] == "PUSH_TOO_MANY_RECEIPTS"
