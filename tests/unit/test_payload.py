import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumer.expo.payload import LIMIT_BYTES, Envelope, build_message, collapse_id
from shared.domain.content import Content
from shared.domain.policy import CategoryPolicy

POLICY = CategoryPolicy(timedelta(minutes=30))
ENVELOPE = Envelope("ExponentPushToken[a]", datetime(2026, 6, 1, 10, 30, tzinfo=UTC), "row", "c" * 32)
ROW = {"_id": "x", "reminderId": "r", "deviceId": "d", "localDate": "2026-06-01", "localTime": "12:00"}


def size(payload):
    """Compact JSON in UTF-8, the address included: never less than what is counted against the limit."""
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode())


def build(title="Lunch", body="Eat", data=None, policy=POLICY):
    return build_message(ENVELOPE, Content(title, body, data or {}), policy)


def test_a_message_in_full():
    message = build(data={"url": "app://lunch"})
    assert message.to == "ExponentPushToken[a]"
    assert message.get_payload() == {
        "to": "ExponentPushToken[a]",
        "title": "Lunch",
        "body": "Eat",
        "data": {"url": "app://lunch", "messageId": "row"},
        "expiration": 1780309800,
        "collapseId": "c" * 32,
        "tag": "c" * 32,
        "sound": "default",
    }


def test_the_push_becomes_worthless_at_an_instant_and_never_by_age():
    payload = build().get_payload()
    assert payload["expiration"] == int(ENVELOPE.expires_at.timestamp())
    assert "ttl" not in payload


def test_presentation_comes_from_the_category():
    policy = CategoryPolicy(
        timedelta(minutes=1),
        priority="high",
        interruption_level="time-sensitive",
        channel_id="safety",
        sound=None,
    )
    payload = build(policy=policy).get_payload()
    assert (payload["priority"], payload["interruptionLevel"], payload["channelId"]) == (
        "high",
        "time-sensitive",
        "safety",
    )
    assert "sound" not in payload


def test_the_deep_link_cannot_take_the_place_of_the_messages_id():
    assert build(data={"messageId": "theirs"}).get_payload()["data"] == {"messageId": "row"}


@pytest.mark.parametrize(("title", "body", "names"), [("", "b", {"body"}), ("t", "", {"title"})])
def test_empty_words_are_left_out(title, body, names):
    assert {"title", "body"} & build(title, body).get_payload().keys() == names


def test_data_that_is_too_big_makes_no_message():
    assert build(data={"x": "y" * 5000}) is None


@settings(deadline=None)
@given(
    title=st.text(max_size=200) | st.just("é" * 3000),
    body=st.text(max_size=200) | st.just("👨‍👩‍👧‍👦" * 500) | st.just("\x1f" * 2000) | st.just("x" * 4100),
    data=st.dictionaries(st.text(max_size=8), st.text(max_size=300), max_size=4),
)
def test_whatever_is_built_fits(title, body, data):
    message = build(title, body, data)
    if message is not None:
        assert size(message.get_payload()) <= LIMIT_BYTES


@given(st.integers(0, 400))
def test_nothing_is_cut_that_fits(room):
    frame = size(build("t", "").get_payload())
    body = "x" * (LIMIT_BYTES - frame - len(',"body":""') - room)
    assert build("t", body).get_payload()["body"] == body


def test_one_byte_more_is_cut():
    frame = size(build("t", "").get_payload())
    body = "x" * (LIMIT_BYTES - frame - len(',"body":""') + 1)
    payload = build("t", body).get_payload()
    assert payload["body"] != body
    assert LIMIT_BYTES - 10 <= size(payload) <= LIMIT_BYTES


# --- the same push ---------------------------------------------------------------------------------------------


def test_every_attempt_and_every_row_of_one_occurrence_has_the_same_name():
    other = {**ROW, "_id": "another", "notificationTokenId": "new", "scheduledAt": 1, "title": "edited"}
    assert collapse_id(ROW) == collapse_id(other)
    assert len(collapse_id(ROW)) == 32
    assert collapse_id(ROW).isalnum()


@pytest.mark.parametrize("name", ["reminderId", "deviceId", "localDate", "localTime"])
def test_another_occurrence_has_another_name(name):
    assert collapse_id({**ROW, name: "other"}) != collapse_id(ROW)


@pytest.mark.parametrize("absent", [{"reminderId": None}, {}])
def test_without_a_reminder_the_row_is_its_own(absent):
    row = {name: value for name, value in ROW.items() if name != "reminderId"} | absent
    assert collapse_id(row) == collapse_id({**row, "localTime": "13:00"})
    assert collapse_id(row) != collapse_id({**row, "_id": "y"})


def test_parts_cannot_run_into_each_other():
    assert collapse_id({**ROW, "reminderId": "a|b", "deviceId": "c"}) != collapse_id(
        {**ROW, "reminderId": "a", "deviceId": "b|c"}
    )
