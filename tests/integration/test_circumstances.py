"""What is read about rows and users: in batches, in order, and what cannot be understood counts as not there."""

from datetime import UTC, datetime

import pytest
from bson.datetime_ms import DatetimeMS

from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.circumstances import read_circumstances

REMINDER = {"category": "meal", "label": "lunch", "localTimes": ["12:00"], "title": "Lunch", "body": "Eat"}


@pytest.fixture
def audience(db):
    return Audience(db)


@pytest.fixture
def person(db):
    """Plants a user with a phone and a reminder of the same name."""

    def plant(name, user=None, phone=None, reminder=None):
        db["users"].insert_one({"_id": name, "timezone": "Europe/Copenhagen", **(user or {})})
        token = {"_id": name, "userId": name, "deviceId": name, "token": f"ExponentPushToken[{name}]", "isActive": True}
        db["notification_tokens"].insert_one({**token, **(phone or {})})
        db["reminders"].insert_one({"_id": name, "userId": name, **REMINDER, **(reminder or {})})

    return plant


def row(name, **fields):
    return {"_id": name, "userId": name, "deviceId": name, "reminderId": name, **fields}


def test_each_row_gets_its_own_in_the_order_of_the_rows(audience, person):
    for name in "abc":
        person(name)
    known = read_circumstances(audience, [row("c"), row("a"), row("b"), row("a")])
    assert [one.user.id for one in known] == ["c", "a", "b", "a"]
    assert [one.reminder.id for one in known] == ["c", "a", "b", "a"]
    assert [one.device_token.id for one in known] == ["c", "a", "b", "a"]


def test_what_is_not_there_is_none(audience, person):
    person("a")
    (known,) = read_circumstances(audience, [row("a", userId="x", deviceId="x", reminderId="x")])
    assert (known.user, known.reminder, known.device_token) == (None, None, None)
    (bare,) = read_circumstances(audience, [{"_id": 1, "userId": "a"}])
    assert bare.user.id == "a"
    assert (bare.reminder, bare.device_token) == (None, None)
    assert read_circumstances(audience, []) == []


def test_a_phone_is_its_active_token_whoever_owns_it(audience, db, person):
    person("a", phone={"isActive": False})
    db["notification_tokens"].insert_one(
        {"_id": "new", "userId": "other", "deviceId": "a", "token": "ExponentPushToken[n]", "isActive": True}
    )
    (known,) = read_circumstances(audience, [row("a")])
    assert (known.device_token.id, known.device_token.user_id) == ("new", "other")


def test_ids_of_any_type(audience, person, db):
    db["users"].insert_one({"_id": {"a": 1}, "timezone": "UTC"})
    person("b")
    known = read_circumstances(audience, [row("b", userId={"a": 1}), row("b", userId={"a": 2})])
    assert known[0].user.id == {"a": 1}
    assert known[1].user is None


BAD = {
    "a zone that is none": {"user": {"timezone": "Nowhere"}},
    "wishes that cannot be read": {"user": {"preferences": 5}},
    "a token that is none": {"phone": {"token": "x"}},
    "a rule that is none": {"reminder": {"recurrence": "FREQ=SECONDLY"}},
    "a date outside the calendar": {"reminder": {"createdAt": DatetimeMS(10**16)}},
    "a user's date outside the calendar": {"user": {"isActive": DatetimeMS(10**16)}},
    "a phone's date outside the calendar": {"phone": {"createdAt": DatetimeMS(10**16)}},
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_understood_hurts_no_neighbour(audience, person, name):
    person("bad", **BAD[name])
    person("good")
    bad, good = read_circumstances(audience, [row("bad"), row("good")])
    assert good.user is not None
    assert good.reminder is not None
    assert good.device_token is not None
    assert bad.user is None or bad.reminder is None or bad.device_token is None or "phone's date" in name


def test_users_come_in_batches_in_the_order_of_their_ids(audience, db):
    db["users"].insert_many([{"_id": number, "timezone": "UTC"} for number in (3, 1, 7, 5, 2)])
    assert [[user["_id"] for user in batch] for batch in audience.batches(2)] == [[1, 2], [3, 5], [7]]
    assert [len(batch) for batch in audience.batches(5)] == [5]


def test_of_a_user_only_what_is_needed_is_read(audience, db):
    db["users"].insert_one({"_id": 1, "timezone": "UTC", "photo": "x" * 1000})
    ((user,),) = audience.batches(10)
    assert "photo" not in user


def test_reminders_of_users_come_with_the_cancelled_ones(audience, person):
    person("a", reminder={"isDeleted": True})
    person("b", reminder={"isActive": False})
    person("c")
    assert {one["_id"] for one in audience.reminders_of(["a", "b"])} == {"a", "b"}


def test_active_tokens_alone(audience, person):
    person("a", phone={"isActive": False})
    person("b", phone={"createdAt": datetime(2026, 1, 1, tzinfo=UTC)})
    (token,) = audience.active_tokens_of(["a", "b"])
    assert token["_id"] == "b"
    assert token["createdAt"].replace(tzinfo=UTC) == datetime(2026, 1, 1, tzinfo=UTC), "naive or aware, it means UTC"
    assert [one["_id"] for one in audience.active_tokens_on(["a", "b"])] == ["b"]
