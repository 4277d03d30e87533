from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.domain.decision import (
    Circumstances,
    GiveUp,
    Hold,
    Miss,
    Postpone,
    Reject,
    Rules,
    Send,
    decide,
    grace_end,
    unresolved_attempts,
)
from shared.domain.documents import parse_reminder, parse_token, parse_user
from shared.domain.moves import Placement
from shared.domain.policy import CategoryPolicy
from shared.domain.states import Reason

DUE = datetime(2026, 6, 1, 10, 0, tzinfo=UTC)  # noon in Copenhagen
NOW = DUE + timedelta(seconds=1)
GRACE = timedelta(minutes=30)
PAUSE = timedelta(seconds=30)
RULES = Rules(CategoryPolicy(GRACE), 5, PAUSE)
ONCE = Rules(CategoryPolicy(GRACE, on_unknown="give_up"), 5, PAUSE)

ROW = {
    "_id": "row",
    "userId": "u",
    "deviceId": "d",
    "notificationTokenId": "t",
    "reminderId": "r",
    "category": "meal",
    "label": "lunch",
    "localDate": "2026-06-01",
    "localTime": "12:00",
    "timezone": "Europe/Copenhagen",
    "scheduledAt": DUE,
    "title": "old",
    "body": "old",
    "data": {},
    "attempts": 0,
    "unresolvedAttempts": 0,
    "attemptId": None,
    "nextAttemptAt": None,
}


def user(**fields):
    return parse_user({"_id": "u", "timezone": "Europe/Copenhagen", **fields})


def reminder(owner=None, **fields):
    document = {
        "_id": "r",
        "userId": "u",
        "category": "meal",
        "label": "lunch",
        "localTimes": ["12:00"],
        "title": "Lunch",
        "body": "Eat",
    }
    return parse_reminder({**document, **fields}, (owner or user()).zone)


def token(**fields):
    document = {"_id": "t", "userId": "u", "deviceId": "d", "token": "ExponentPushToken[a]", "isActive": True}
    return parse_token({**document, **fields})


def known(**parts):
    return Circumstances(**{"user": user(), "reminder": reminder(), "device_token": token(), **parts})


def verdict(row=None, now=NOW, rules=RULES, **parts):
    return decide({**ROW, **(row or {})}, known(**parts), rules, now)


def test_a_due_row_is_sent_with_the_words_of_today():
    outcome = verdict()
    assert isinstance(outcome, Send)
    assert (outcome.token.id, outcome.content.title, outcome.content.body) == ("t", "Lunch", "Eat")


def test_a_row_of_another_program_keeps_its_own_words_and_needs_no_reminder():
    row = {"reminderId": None, "title": "Storm", "body": "Stay"}
    assert verdict(row, reminder=None).content.title == "Storm"


MISSED = {
    "the user is gone": ({"user": None}, Reason.USER_INACTIVE),
    "the user is not active": ({"user": user(isActive=False)}, Reason.USER_INACTIVE),
    "the user wants nothing": ({"user": user(preferences={"enabled": False})}, Reason.OPTED_OUT),
    "the user does not want the category": (
        {"user": user(preferences={"categories": {"meal": False}})},
        Reason.OPTED_OUT,
    ),
    "the reminder is gone": ({"reminder": None}, Reason.REMINDER_CANCELLED),
    "the reminder is deleted": ({"reminder": reminder(isDeleted=True)}, Reason.REMINDER_CANCELLED),
    "the reminder sleeps": ({"reminder": reminder(isActive=False)}, Reason.REMINDER_CANCELLED),
    "the reminder is another's": ({"reminder": reminder(userId="x")}, Reason.REMINDER_CANCELLED),
    "the reminder's time was edited": ({"reminder": reminder(localTimes=["12:30"])}, Reason.REMINDER_CANCELLED),
    "the reminder's new category is refused": (
        {"reminder": reminder(category="mood"), "user": user(preferences={"categories": {"mood": False}})},
        Reason.OPTED_OUT,
    ),
    "the rule no longer holds that day": (
        {"reminder": reminder(recurrence="FREQ=WEEKLY;BYDAY=SU")},
        Reason.REMINDER_CANCELLED,
    ),
    "the device has no token": ({"device_token": None}, Reason.NO_ACTIVE_TOKEN),
    "the device is another's now": ({"device_token": token(userId="x")}, Reason.SUPERSEDED),
    "the hours do not allow it": (
        {"user": user(preferences={"allowedHours": {"start": "13:00", "end": "22:00"}})},
        Reason.OUTSIDE_ALLOWED_HOURS,
    ),
}


@pytest.mark.parametrize("name", MISSED)
def test_the_wish_of_this_moment_decides(name):
    parts, reason = MISSED[name]
    assert verdict(**parts) == Miss(reason)


@pytest.mark.parametrize(
    ("after", "late"),
    [(timedelta(0), False), (GRACE, False), (GRACE + timedelta(milliseconds=1), True), (timedelta(days=2), True)],
)
def test_the_grace_is_the_end(after, late):
    outcome = verdict(now=DUE + after)
    assert outcome == Miss(Reason.TOO_LATE) if late else isinstance(outcome, Send)


def test_hours_may_be_ignored_by_a_category():
    asleep = user(preferences={"allowedHours": {"start": "13:00", "end": "22:00"}})
    rules = Rules(CategoryPolicy(GRACE, ignore_allowed_hours=True), 5, PAUSE)
    assert isinstance(verdict(user=asleep, rules=rules), Send)


def test_hours_are_judged_by_the_clock_on_the_users_wall():
    awake = {"allowedHours": {"start": "11:00", "end": "12:00"}}
    assert verdict(user=user(preferences=awake)) == Miss(Reason.OUTSIDE_ALLOWED_HOURS)
    assert isinstance(verdict(user=user(preferences=awake), now=DUE - timedelta(0)), Miss)
    still = {"allowedHours": {"start": "12:00", "end": "12:01"}}
    assert isinstance(verdict(user=user(preferences=still)), Send)


# --- moved ----------------------------------------------------------------------------------------------------


def test_a_user_who_went_west_hears_of_it_at_the_new_noon():
    west = user(timezone="America/New_York")
    noon = datetime(2026, 6, 1, 16, 0, tzinfo=UTC)
    outcome = verdict(user=west, reminder=reminder(west))
    assert outcome == Postpone(Placement(noon, "America/New_York", "t"))


def test_a_user_who_went_a_little_east_is_within_grace():
    east = user(timezone="Europe/Helsinki")
    assert verdict(user=east, reminder=reminder(east)) == Miss(Reason.TOO_LATE)
    rules = Rules(CategoryPolicy(timedelta(hours=2)), 5, PAUSE)
    assert isinstance(verdict(user=east, reminder=reminder(east), rules=rules), Send)


def test_an_overdue_row_of_a_traveller_is_not_too_late_at_home():
    west = user(timezone="America/New_York")
    outcome = verdict(user=west, reminder=reminder(west), now=DUE + timedelta(hours=2))
    assert isinstance(outcome, Postpone)


def test_a_moved_row_goes_to_the_devices_present_token():
    west = user(timezone="America/New_York")
    outcome = verdict(user=west, reminder=reminder(west), device_token=token(_id="new"))
    assert outcome.placement.token_id == "new"


def test_a_new_token_of_the_same_user_is_followed():
    assert verdict(device_token=token(_id="new", token="ExponentPushToken[b]")).token.id == "new"


# --- tried before ---------------------------------------------------------------------------------------------


def test_a_row_that_is_not_due_or_in_back_off_is_held():
    assert verdict(now=DUE - timedelta(seconds=1)) == Hold(DUE)
    again = NOW + timedelta(seconds=8)
    assert verdict({"nextAttemptAt": again}) == Hold(again)
    assert isinstance(verdict({"nextAttemptAt": NOW}), Send)


@pytest.mark.parametrize(
    ("attempts", "unresolved", "spent"), [(4, 0, False), (5, 0, True), (5, 1, False), (6, 1, True)]
)
def test_definite_refusals_are_counted_up_to_the_ceiling(attempts, unresolved, spent):
    outcome = verdict({"attempts": attempts, "unresolvedAttempts": unresolved})
    if not spent:
        assert isinstance(outcome, Send)
    else:
        assert outcome == (GiveUp() if unresolved else Reject(Reason.RETRIES_EXHAUSTED))


@pytest.mark.parametrize(
    ("unresolved", "rules", "sent"),
    [(1, RULES, True), (2, RULES, False), (1, ONCE, False), (0, ONCE, True)],
)
def test_policy_says_how_often_the_unknown_is_tried_again(unresolved, rules, sent):
    outcome = verdict({"unresolvedAttempts": unresolved, "attempts": unresolved}, rules=rules)
    assert isinstance(outcome, Send) if sent else outcome == GiveUp()


def test_an_abandoned_attempt_counts_like_an_unknown_answer():
    assert unresolved_attempts({"attemptId": "a"}) == 1
    assert unresolved_attempts({"attemptId": "a", "unresolvedAttempts": 1}) == 2
    assert unresolved_attempts({}) == 0
    long_ago = DUE - timedelta(minutes=5)
    row = {"attemptId": "a", "attemptStartedAt": long_ago}
    assert verdict(row, rules=ONCE) == GiveUp()
    assert isinstance(verdict(row), Send)


@pytest.mark.parametrize(("since", "sent"), [(5, False), (29.9, False), (30, True), (300, True)])
def test_an_abandoned_attempt_may_still_be_answered_for_a_while(since, sent):
    started = NOW - timedelta(seconds=since)
    outcome = verdict({"attemptId": "a", "attemptStartedAt": started})
    assert isinstance(outcome, Send) if sent else outcome == Hold(started + PAUSE)


@pytest.mark.parametrize("name", MISSED)
def test_what_was_perhaps_sent_is_never_called_missed(name):
    parts, _ = MISSED[name]
    assert verdict({"unresolvedAttempts": 1}, **parts) == GiveUp()


def test_what_was_perhaps_sent_is_never_moved_or_sent_elsewhere():
    west = user(timezone="America/New_York")
    row = {"unresolvedAttempts": 1}
    assert verdict(row, user=west, reminder=reminder(west)) == GiveUp()
    assert verdict(row, device_token=token(_id="new")) == GiveUp()
    assert verdict(row, now=DUE + GRACE * 2) == GiveUp()


def test_what_was_perhaps_sent_may_wait():
    again = NOW + timedelta(seconds=20)
    assert verdict({"unresolvedAttempts": 1, "nextAttemptAt": again}) == Hold(again)


# --- malformed --------------------------------------------------------------------------------------------------

MALFORMED = [
    {"scheduledAt": None},
    {"scheduledAt": "2026-06-01"},
    {"category": None},
    {"category": 5},
    {"label": None},
    {"label": ["x"]},
    {"nextAttemptAt": "soon"},
]


@pytest.mark.parametrize("fields", MALFORMED, ids=repr)
def test_a_row_without_sense_is_rejected_and_raises_nothing(fields):
    assert verdict(fields) == Reject(Reason.INVALID_PAYLOAD)


@pytest.mark.parametrize(
    "fields",
    [
        {"localDate": None},
        {"localDate": 20260601},
        {"localDate": "2026-02-30"},
        {"localTime": None},
        {"localTime": 1200},
        {"localTime": "25:00"},
    ],
    ids=repr,
)
def test_a_planned_row_with_a_broken_key_belongs_to_no_reminder(fields):
    assert verdict(fields) == Miss(Reason.REMINDER_CANCELLED)


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": None, "unresolvedAttempts": None, "attemptId": ""},
        {"attempts": 0.0, "unresolvedAttempts": 0.0},
    ],
    ids=repr,
)
def test_missing_bookkeeping_is_none(fields):
    assert isinstance(verdict(fields), Send)


@pytest.mark.parametrize(
    "fields", [{"attempts": "three"}, {"unresolvedAttempts": "one"}, {"attempts": {}}, {"unresolvedAttempts": []}]
)
def test_strange_bookkeeping_raises_nothing(fields):
    assert isinstance(verdict(fields), Send | Reject | GiveUp | Miss)


def test_words_that_cannot_be_shown_are_rejected():
    assert verdict(reminder=reminder(title={}, body={})) == Reject(Reason.INVALID_PAYLOAD)
    assert verdict({"reminderId": None, "title": None, "body": None}) == Reject(Reason.INVALID_PAYLOAD)


def test_the_grace_ends_after_the_planned_instant():
    assert grace_end(ROW, CategoryPolicy(GRACE)) == DUE + GRACE


def test_decisions_can_be_compared_and_grouped():
    assert {Miss(Reason.TOO_LATE): 1}[Miss(Reason.TOO_LATE)] == 1
    assert replace(RULES, max_attempts=6) != RULES


@pytest.mark.parametrize("change", [{"label": "dinner"}, {"category": "mood"}])
def test_a_renamed_reminder_is_still_wanted(change):
    assert isinstance(verdict(reminder=reminder(**change)), Send)
