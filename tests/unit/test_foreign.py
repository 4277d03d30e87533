from datetime import UTC, datetime, timedelta

import pytest

from creator.domain.foreign import adoption, complaint, is_whole, refusal
from creator.domain.rows import blank_state
from shared.domain.documents import parse_token, parse_user
from shared.domain.policy import CategoryPolicy

NOW = datetime(2026, 6, 1, 10, 0, tzinfo=UTC)
POLICIES = {"safety": CategoryPolicy(timedelta(minutes=30))}
ALERT = {
    "_id": "a",
    "userId": "u",
    "category": "safety",
    "label": "storm",
    "scheduledAt": NOW,
    "title": "Storm",
    "body": "Stay inside",
}
USER = parse_user({"_id": "u", "timezone": "Europe/Copenhagen"})


def token(number, **fields):
    document = {"_id": f"t{number}", "userId": "u", "deviceId": f"d{number}", "isActive": True}
    return parse_token({**document, "token": f"ExponentPushToken[{number}]", **fields})


def test_the_least_that_must_be_said_is_enough():
    assert complaint(ALERT, POLICIES) is None
    assert complaint({**ALERT, "status": "pending"}, POLICIES) is None
    assert complaint({**ALERT, "title": {"default": "x"}, "body": {"default": "y"}}, POLICIES) is None


LACKING = [
    (name, value) for name in ("category", "label", "scheduledAt", "title", "body") for value in (None, 5, [], ...)
]


@pytest.mark.parametrize(("name", "value"), [("userId", None), ("userId", ...), *LACKING], ids=repr)
def test_what_is_missing_or_wrong_is_named(name, value):
    row = {key: one for key, one in {**ALERT, name: value}.items() if one is not ...}
    assert complaint(row, POLICIES).startswith(f"{name}: ")


@pytest.mark.parametrize(
    "fields", [{"category": "weather"}, {"status": "sent"}, {"status": "x"}, {"status": []}, {"status": {"a": 1}}]
)
def test_what_we_do_not_know_is_refused(fields):
    assert complaint({**ALERT, **fields}, POLICIES) is not None


@pytest.mark.parametrize("name", ["isDeleted", "deviceId", "status", "localDate"])
def test_a_row_is_whole_when_every_part_can_rely_on_it(name):
    whole = {**ALERT, **blank_state(), "deviceId": "d", "localDate": "2026-06-01"}
    assert is_whole(whole)
    assert not is_whole({key: value for key, value in whole.items() if key != name})


def test_one_row_per_phone():
    made = adoption(ALERT, USER, [token(1), token(2), token(3)], NOW)
    assert (made.fields["deviceId"], made.fields["notificationTokenId"]) == ("d1", "t1")
    assert [(copy["deviceId"], copy["notificationTokenId"]) for copy in made.copies] == [("d2", "t2"), ("d3", "t3")]
    assert all(copy["title"] == "Storm" and copy["status"] == "pending" for copy in made.copies)
    assert len({copy["_id"] for copy in made.copies} | {"a"}) == 3


def test_copies_have_the_same_ids_however_often_they_are_made():
    once, again = (adoption(ALERT, USER, [token(1), token(2)], NOW + timedelta(s)) for s in (0, 1))
    assert [copy["_id"] for copy in once.copies] == [copy["_id"] for copy in again.copies]


def test_a_row_for_one_phone_stays_there():
    made = adoption({**ALERT, "deviceId": "d2"}, USER, [token(1), token(2)], NOW)
    assert (made.fields["deviceId"], made.copies) == ("d2", [])


def test_devices_may_be_documents():
    phone = token(1, deviceId={"a": 1})
    assert adoption({**ALERT, "deviceId": {"a": 1}}, USER, [phone], NOW).fields["deviceId"] == {"a": 1}
    assert adoption({**ALERT, "deviceId": [1]}, USER, [phone], NOW).fields["status"] == "is_missed"


@pytest.mark.parametrize(
    ("user", "tokens", "reason"),
    [(None, [token(1)], "user_inactive"), (USER, [], "no_active_token"), (None, [], "user_inactive")],
)
def test_nobody_to_tell_is_missed_at_once(user, tokens, reason):
    made = adoption(ALERT, user, tokens, NOW)
    assert (made.fields["status"], made.fields["reason"], made.fields["resolvedAt"]) == ("is_missed", reason, NOW)
    assert made.fields["isDeleted"] is False
    assert made.fields["localDate"] == "2026-06-01"


def test_the_date_and_time_are_those_of_the_users_wall():
    late = {**ALERT, "scheduledAt": NOW.replace(hour=22, minute=30)}
    fields = adoption(late, USER, [token(1)], NOW).fields
    assert (fields["localDate"], fields["localTime"], fields["timezone"]) == (
        "2026-06-02",
        "00:30",
        "Europe/Copenhagen",
    )


def test_a_row_of_the_past_counts_for_today():
    old = {**ALERT, "scheduledAt": NOW - timedelta(days=30)}
    assert adoption(old, USER, [token(1)], NOW).fields["localDate"] == "2026-06-01"


def test_what_the_row_says_itself_is_kept():
    row = {**ALERT, "localDate": "2026-05-31", "timezone": "UTC", "data": {"url": "x"}, "createdAt": NOW}
    fields = adoption(row, USER, [token(1)], NOW).fields
    assert not {"localDate", "timezone", "data", "createdAt"} & fields.keys()


def test_null_is_no_reminder():
    made = adoption({**ALERT, "reminderId": None}, USER, [token(1), token(2)], NOW)
    assert made.absent == ["reminderId"]
    assert all("reminderId" not in copy for copy in made.copies)


@pytest.mark.parametrize("scheduled_at", [datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Pago_Pago"])
def test_an_instant_at_the_edge_of_the_calendar_raises_nothing(scheduled_at, zone):
    row = {**ALERT, "scheduledAt": scheduled_at}
    if complaint(row, POLICIES) is None:
        adoption(row, parse_user({"_id": "u", "timezone": zone}), [token(1)], NOW)


def test_a_refused_row_ends_and_can_be_counted():
    made = refusal({"_id": "x"}, NOW)
    for name, value in {
        "status": "failed",
        "reason": "invalid_payload",
        "resolvedAt": NOW,
        "isDeleted": False,
        "localDate": "2026-06-01",
        "category": "unknown",
        "label": "unknown",
    }.items():
        assert made.fields[name] == value


@pytest.mark.parametrize("value", [5, [], {"a": 1}, None])
def test_names_of_a_wrong_type_are_not_counted_by(value):
    fields = refusal({**ALERT, "label": value, "category": value}, NOW).fields
    assert (fields["label"], fields["category"]) == ("unknown", "unknown")
