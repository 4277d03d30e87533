import io
import json
import logging

import pytest
import structlog

from shared.runtime.logs import configure_logs, get_logger, redact, scrub


def fail():
    raise ValueError("mongodb://a:hush@db refuses ExponentPushToken[abcDEF123]")


@pytest.fixture
def lines():
    stream = io.StringIO()
    configure_logs("json", stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    structlog.reset_defaults()
    logging.basicConfig(level=logging.WARNING, force=True)


SECRETS = {
    "a push token": ("error", "cannot send to ExponentPushToken[abcDEF123]", "abcDEF123"),
    "a push token of the other spelling": ("error", "ExpoPushToken[abcDEF123] is gone", "abcDEF123"),
    "a token by its key": ("token", "0cf3a1b2-1111-2222-3333-444455556666", "0cf3a1b2"),
    "a passcode": ("stomp_passcode", "hush", "hush"),
    "a password": ("password", "hush", "hush"),
    "a header": ("Authorization", "Bearer hush", "hush"),
    "a secret": ("client_secret", "hush", "hush"),
    "an address with credentials": ("url", "mongodb://someone:hush@db/x", "hush"),
    "an address within a text": ("error", "cannot reach mongodb+srv://a.b:hush%40x@db/?w=1, giving up", "hush"),
    "an address without a name": ("error", "stomp://:hush@broker:61613", "hush"),
    "two addresses": ("error", "stomp://a:hush@b,stomp://c:hush@d", "hush"),
    "within a list": ("errors", ["fine", "ExpoPushToken[abcDEF123]"], "abcDEF123"),
    "within a document": ("user", {"name": "n", "token": "hush"}, "hush"),
    "deep within": ("batch", [{"to": {"address": "ExponentPushToken[abcDEF123]"}}], "abcDEF123"),
    "a list of tokens": ("tokens", ["hush", "hush2"], "hush"),
}


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_never_get_into_a_line(lines, name):
    key, value, secret = SECRETS[name]
    get_logger("part").error("event", **{key: value})
    (line,) = lines()
    assert secret not in json.dumps(line)
    assert line["event"] == "event"


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_bound_to_a_logger_do_not_either(lines, name):
    key, value, secret = SECRETS[name]
    get_logger("part").bind(**{key: value}).error("event")
    assert secret not in json.dumps(lines())


def test_a_secret_in_the_event_itself_is_hidden(lines):
    get_logger("part").error("no such device: ExponentPushToken[abcDEF123]")
    assert "abcDEF123" not in json.dumps(lines())


def test_a_secret_in_an_exception_is_hidden(lines):
    try:
        fail()
    except ValueError:
        get_logger("part").exception("failed")
    (line,) = lines()
    assert "ValueError" in line["exception"]
    assert "hush" not in json.dumps(line)
    assert "abcDEF123" not in json.dumps(line)


def test_libraries_are_heard_when_something_is_wrong_and_redacted(lines):
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").error("lost %s", "mongodb://a:hush@db")
    (line,) = lines()
    assert line["event"].startswith("lost mongodb://")
    assert "hush" not in json.dumps(line)


def test_a_librarys_traceback_is_redacted_and_one_line(lines):
    try:
        fail()
    except ValueError:
        logging.getLogger("some.library").exception("failed")
    (line,) = lines()
    assert "hush" not in json.dumps(line)
    assert "abcDEF123" not in json.dumps(line)


@pytest.mark.parametrize("key", ["token_id", "token_ids", "message_id", "tokenId"])
def test_ids_are_shown(lines, key):
    get_logger("part").info("event", **{key: "65f0c0ff"})
    assert lines()[0][key] == "65f0c0ff"


def test_numbers_and_places_stay_what_they_are(lines):
    get_logger("part").info("event", rows=5, tokens=7, host="broker", url="https://exp.host/x", at=None)
    (line,) = lines()
    assert (line["rows"], line["tokens"], line["url"], line["at"]) == (5, 7, "https://exp.host/x", None)


def test_every_line_says_when_which_part_and_how_bad(lines):
    get_logger("relay").warning("held_up")
    (line,) = lines()
    assert (line["part"], line["level"], line["event"]) == ("relay", "warning", "held_up")
    assert line["timestamp"].endswith("Z")


def test_what_json_does_not_know_is_told_as_text(lines):
    get_logger("part").info("event", value=object)
    assert "object" in lines()[0]["value"]


def test_a_readable_form_hides_the_same():
    stream = io.StringIO()
    configure_logs("text", stream)
    get_logger("part").error("event", error="ExponentPushToken[abcDEF123]", password="hush")
    text = stream.getvalue()
    structlog.reset_defaults()
    logging.basicConfig(level=logging.WARNING, force=True)
    assert "event" in text
    assert "abcDEF123" not in text
    assert "hush" not in text


def test_redacting_leaves_the_callers_values_alone():
    inner = {"token": "hush"}
    event = {"event": "e", "user": inner}
    assert redact(None, "info", event)["user"] == {"token": "***"}
    assert inner == {"token": "hush"}


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("mongodb://a:b@h/x", "mongodb://***@h/x"),
        ("ExponentPushToken[x]", "ExponentPushToken[***]"),
        ("12:30 at a@b.c", "12:30 at a@b.c"),
        ("mongodb://user@h", "mongodb://user@h"),
    ],
)
def test_scrubbing_takes_the_secret_and_no_more(text, scrubbed):
    assert scrub(text) == scrubbed
