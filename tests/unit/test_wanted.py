"""What a plan makes of the documents it reads: what to insert, to move, to delete, and what it passes over."""

from datetime import UTC, datetime, timedelta

import pytest

from creator.domain.wanted import Batch, BatchPlan, Moment, calendars
from shared.domain.moves import Placement
from shared.domain.policy import CategoryPolicy
from shared.domain.states import DeletedReason, SkipReason

NOW = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)  # ten o'clock in Copenhagen
NOON = datetime(2026, 6, 1, 10, 0, tzinfo=UTC)
MOMENT = Moment(NOW, NOW + timedelta(hours=24), NOW - timedelta(seconds=1))
POLICIES = {
    "meal": CategoryPolicy(timedelta(minutes=30)),
    "safety": CategoryPolicy(timedelta(minutes=30), ignore_allowed_hours=True),
}


def user(**fields):
    return {"_id": "u", "timezone": "Europe/Copenhagen", **fields}


def reminder(**fields):
    document = {"_id": "r", "userId": "u", "category": "meal", "label": "lunch", "localTimes": ["12:00"]}
    return {**document, "title": "Lunch", "body": "Eat", **fields}


def token(**fields):
    return {"_id": "t", "userId": "u", "deviceId": "d", "token": "ExponentPushToken[a]", "isActive": True, **fields}


def row(**fields):
    document = {
        "_id": "row",
        "reminderId": "r",
        "deviceId": "d",
        "localDate": "2026-06-01",
        "localTime": "12:00",
        "status": "pending",
        "scheduledAt": NOON,
        "timezone": "Europe/Copenhagen",
        "notificationTokenId": "t",
        "plannedAt": NOW - timedelta(hours=1),
    }
    return {**document, **fields}


class Complaints(list):
    def __call__(self, *complaint):
        self.append(complaint)


def plan(users=None, reminders=None, tokens=None, known=(), moment=MOMENT, complaints=None):
    batch = Batch(
        [user()] if users is None else users,
        [reminder()] if reminders is None else reminders,
        [token()] if tokens is None else tokens,
        list(known),
    )
    complain = Complaints() if complaints is None else complaints
    return BatchPlan(POLICIES, calendars(POLICIES, moment), moment, complain).work_out(batch)


def instants(changes):
    return sorted(one["scheduledAt"] for one in changes.inserts)


def test_a_reminder_becomes_a_row_per_phone_and_day():
    changes = plan(tokens=[token(), token(_id="t2", deviceId="d2", token="ExponentPushToken[b]")])
    assert [(one["deviceId"], one["scheduledAt"]) for one in changes.inserts] == [("d", NOON), ("d2", NOON)]
    new = changes.inserts[0]
    assert (new["localDate"], new["localTime"], new["timezone"]) == ("2026-06-01", "12:00", "Europe/Copenhagen")
    assert (new["title"], new["status"], new["plannedAt"], new["claim"]) == ("Lunch", "pending", MOMENT.started, None)
    assert not changes.moves
    assert not changes.deletes


def test_the_horizon_bounds_what_is_planned():
    week = Moment(NOW, NOW + timedelta(days=7), NOW)
    assert len(plan(moment=week).inserts) == 7
    assert plan(moment=Moment(NOW, NOW + timedelta(hours=1), NOW)).inserts == []


def test_what_passed_within_its_grace_is_still_planned_and_what_passed_longer_ago_is_not():
    for minutes, found in [(29, 1), (31, 0)]:
        moment = Moment(NOON + timedelta(minutes=minutes), NOON + timedelta(hours=1), NOON)
        assert len(plan(moment=moment).inserts) == found


def test_what_exists_is_not_inserted_again_in_whatever_state():
    for status in ("pending", "sent", "success", "failed", "is_missed"):
        changes = plan(known=[row(status=status)])
        assert (changes.inserts, changes.moves, changes.already, dict(changes.deletes)) == ([], [], 1, {})


SKIPPED = {
    "a zone that is none": ({"users": [user(timezone="Nowhere")]}, SkipReason.BAD_TIMEZONE),
    "wishes that cannot be read": ({"users": [user(preferences=5)]}, SkipReason.BAD_DOCUMENT),
    "a user who sleeps": ({"users": [user(isActive=False)]}, SkipReason.USER_INACTIVE),
    "a user who wants nothing": ({"users": [user(preferences={"enabled": False})]}, SkipReason.OPTED_OUT),
    "a refused category": ({"users": [user(preferences={"categories": {"meal": False}})]}, SkipReason.OPTED_OUT),
    "hours that do not allow it": (
        {"users": [user(preferences={"allowedHours": {"start": "13:00", "end": "22:00"}})]},
        SkipReason.OUTSIDE_ALLOWED_HOURS,
    ),
    "no phone": ({"tokens": []}, SkipReason.NO_ACTIVE_TOKEN),
    "a token that is none": ({"tokens": [token(token="x")]}, SkipReason.BAD_TOKEN),
    "a time that is none": ({"reminders": [reminder(localTimes=["noon"])]}, SkipReason.BAD_LOCAL_TIME),
    "a rule that is none": ({"reminders": [reminder(recurrence="FREQ=SECONDLY")]}, SkipReason.BAD_RECURRENCE),
    "a category nobody knows": ({"reminders": [reminder(category="x")]}, SkipReason.UNKNOWN_CATEGORY),
    "a reminder without a label": ({"reminders": [reminder(label=None)]}, SkipReason.BAD_DOCUMENT),
}


@pytest.mark.parametrize("name", SKIPPED)
def test_what_is_passed_over_is_counted_by_reason(name):
    parts, reason = SKIPPED[name]
    changes = plan(**parts)
    assert changes.inserts == []
    assert changes.skipped[reason] == 1


def test_every_reason_that_the_planner_has_is_tried():
    assert {reason for _, reason in SKIPPED.values()} == set(SkipReason) - {SkipReason.SAME_INSTANT}


@pytest.mark.parametrize(
    ("parts", "collection"),
    [
        ({"users": [user(timezone=5)]}, "users"),
        ({"reminders": [reminder(category="x")]}, "reminders"),
        ({"reminders": [reminder(localTimes=["12:00", "noon"])]}, "reminders"),
        ({"tokens": [token(token="secret-thing")]}, "notification_tokens"),
    ],
)
def test_a_wrong_document_is_told_with_its_id_and_stops_nobody(parts, collection):
    complaints = Complaints()
    others = {
        "users": [*parts.get("users", [user()]), user(_id="v")],
        "reminders": [*parts.get("reminders", [reminder()]), reminder(_id="r2", userId="v")],
        "tokens": [
            *parts.get("tokens", [token()]),
            token(_id="t2", userId="v", deviceId="d2", token="ExponentPushToken[b]"),
        ],
    }
    changes = plan(**others, complaints=complaints)
    assert any(one["userId"] == "v" for one in changes.inserts)
    assert [(name, document_id) for name, document_id, _, _ in complaints] == [
        (collection, {"users": "u", "reminders": "r", "notification_tokens": "t"}[collection])
    ]
    assert "secret-thing" not in complaints[0][3]


def test_two_reminders_of_one_label_at_one_instant_are_one():
    changes = plan(reminders=[reminder(), reminder(_id="r2")])
    assert len(changes.inserts) == 1
    assert changes.skipped[SkipReason.SAME_INSTANT] == 1


def test_two_labels_at_one_instant_are_two():
    assert len(plan(reminders=[reminder(), reminder(_id="r2", label="pill")]).inserts) == 2


# --- nothing for an instant before it was news -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["createdAt", "updatedAt"])
def test_nobody_gets_the_reminder_of_a_minute_before_they_wrote_it(name):
    moment = Moment(NOON + timedelta(minutes=10), NOON + timedelta(hours=1), NOON)
    assert plan(reminders=[reminder(**{name: NOON + timedelta(minutes=9)})], moment=moment).inserts == []
    assert len(plan(reminders=[reminder(**{name: NOON})], moment=moment).inserts) == 1


def test_a_phone_gets_nothing_of_before_it_registered():
    moment = Moment(NOON + timedelta(minutes=10), NOON + timedelta(hours=1), NOON)
    assert plan(tokens=[token(createdAt=NOON + timedelta(minutes=1))], moment=moment).inserts == []


@pytest.mark.parametrize(
    "parts",
    [
        {"reminders": [reminder(updatedAt=NOON + timedelta(minutes=1))]},
        {"tokens": [token(createdAt=NOON + timedelta(minutes=1))]},
    ],
)
def test_what_exists_is_judged_without_that_rule(parts):
    changes = plan(**parts, known=[row()])
    assert (changes.inserts, changes.moves, dict(changes.deletes), changes.already) == ([], [], {}, 1)


# --- what changed --------------------------------------------------------------------------------------------------


def test_a_user_who_moved_has_the_row_moved_and_no_second_one():
    changes = plan(users=[user(timezone="America/New_York")], known=[row()])
    noon = datetime(2026, 6, 1, 16, 0, tzinfo=UTC)
    placement = Placement(noon, "America/New_York", "t")
    assert [(move.row_id, move.placement) for move in changes.moves] == [("row", placement)]
    assert changes.inserts == []
    assert not changes.deletes


def test_a_row_whose_minute_has_passed_where_the_user_is_now_is_left_to_the_send_stage():
    changes = plan(users=[user(timezone="Asia/Tokyo")], known=[row()])
    assert (changes.moves, dict(changes.deletes)) == ([], {})


@pytest.mark.parametrize("status", ["sent", "success", "failed", "is_missed"])
def test_what_was_sent_or_ended_is_never_moved_or_deleted(status):
    changes = plan(users=[user(timezone="America/New_York")], known=[row(status=status)])
    assert (changes.moves, dict(changes.deletes)) == ([], {})
    gone = plan(reminders=[reminder(isDeleted=True)], known=[row(status=status)])
    assert not gone.deletes


def test_an_edited_time_is_another_occurrence():
    changes = plan(reminders=[reminder(localTimes=["13:00"])], known=[row()])
    assert instants(changes) == [NOON + timedelta(hours=1)]
    assert dict(changes.deletes) == {DeletedReason.REMINDER_CHANGED: ["row"]}


DELETED = {
    "the reminder was deleted": ({"reminders": [reminder(isDeleted=True)]}, DeletedReason.REMINDER_CHANGED),
    "the reminder was switched off": ({"reminders": [reminder(isActive=False)]}, DeletedReason.REMINDER_CHANGED),
    "the day is no longer its": (
        {"reminders": [reminder(recurrence="FREQ=WEEKLY;BYDAY=SU")]},
        DeletedReason.REMINDER_CHANGED,
    ),
    "the user sleeps": ({"users": [user(isActive=False)]}, DeletedReason.PREFERENCE_CHANGED),
    "the user does not want it": ({"users": [user(preferences={"enabled": False})]}, DeletedReason.PREFERENCE_CHANGED),
    "the hours do not allow it": (
        {"users": [user(preferences={"allowedHours": {"start": "13:00", "end": "14:00"}})]},
        DeletedReason.PREFERENCE_CHANGED,
    ),
}


@pytest.mark.parametrize("name", DELETED)
def test_rows_that_nobody_wants_any_more_go(name):
    parts, reason = DELETED[name]
    changes = plan(**parts, known=[row()])
    assert dict(changes.deletes) == {reason: ["row"]}
    assert changes.inserts == []


def test_a_user_who_cannot_be_read_loses_nothing():
    changes = plan(users=[user(timezone="Nowhere")], known=[row()])
    assert not changes.deletes


def test_a_reminder_that_cannot_be_read_loses_nothing():
    changes = plan(reminders=[reminder(recurrence="FREQ=SECONDLY")], known=[row()])
    assert not changes.deletes


def test_a_user_whose_phone_is_gone_loses_nothing_yet():
    """The send stage ends the row with its reason; the phone may be back by then."""
    changes = plan(tokens=[], known=[row()])
    assert not changes.deletes


def test_rows_beyond_the_window_are_left_alone():
    tomorrow = row(localDate="2026-06-03", scheduledAt=NOON + timedelta(days=2))
    changes = plan(known=[tomorrow])
    assert (changes.moves, dict(changes.deletes)) == ([], {})


def test_a_moved_row_beyond_the_window_is_moved_too():
    far = row(localDate="2026-06-03", scheduledAt=NOON + timedelta(days=2))
    changes = plan(users=[user(timezone="America/New_York")], known=[far])
    placement = Placement(datetime(2026, 6, 3, 16, 0, tzinfo=UTC), "America/New_York", "t")
    assert [(move.row_id, move.placement) for move in changes.moves] == [("row", placement)]


def test_ids_of_any_type_are_told_apart():
    users = [user(_id={"a": 1}), user(_id={"a": 2})]
    reminders = [reminder(_id=[1], userId={"a": 1}), reminder(_id=[2], userId={"a": 2})]
    tokens = [
        token(_id=1, userId={"a": 1}, deviceId={"d": 1}),
        token(_id=2, userId={"a": 2}, deviceId={"d": 2}, token="ExponentPushToken[b]"),
    ]
    changes = plan(users, reminders, tokens, [row(reminderId=[1], deviceId={"d": 1})])
    assert [(one["userId"], one["deviceId"]) for one in changes.inserts] == [({"a": 2}, {"d": 2})]
    assert changes.already == 1
