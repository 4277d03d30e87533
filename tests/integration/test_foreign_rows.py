"""Rows that other programs insert, however wrong: a sweep must end each of them and stumble over none."""

from datetime import UTC, datetime, timedelta

import pytest
from bson.datetime_ms import DatetimeMS

from creator.adopt import Adopter
from creator.ringing import Ringer, RingRules
from creator.sweep import Sweeper, SweepParts, SweepRules
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.client import server_now
from shared.adapters.mongo.relocation import Relocator
from shared.adapters.stomp.bell import Bell
from shared.adapters.stomp.publisher import Publisher
from shared.domain.decision import Rules
from shared.domain.policy import CategoryPolicy
from shared.runtime.metrics import Metrics

POLICIES = {"meal": CategoryPolicy(timedelta(minutes=30)), "safety": CategoryPolicy(timedelta(minutes=30))}
MINUTES = timedelta(minutes=5)
ENDED = ("success", "failed", "is_missed")


@pytest.fixture
def backlog(db):
    return Backlog(db)


@pytest.fixture
def adopter(db, backlog):
    return Adopter(backlog, Audience(db), POLICIES)


@pytest.fixture
def sweep(db, backlog, brokers, credentials):
    publisher = Publisher(brokers, credentials)
    metrics = Metrics()

    def now():
        return server_now(db)

    ringer = Ringer(Bell(publisher, timedelta(hours=2)), backlog, RingRules(now, 100, frozenset(POLICIES)), metrics)
    decision = {name: Rules(policy, 5, timedelta(seconds=30)) for name, policy in POLICIES.items()}
    rules = SweepRules(
        policies=POLICIES,
        decision=decision,
        interval=MINUTES,
        window=timedelta(hours=2),
        receipt_give_up=timedelta(days=1),
    )
    parts = SweepParts(backlog, Audience(db), Relocator(db, decision), ringer)
    sweeper = Sweeper(parts, rules, metrics)
    yield lambda: sweeper.run(now())
    publisher.close()


@pytest.fixture
def person(db):
    """A user `u` with two phones."""
    db["users"].insert_one({"_id": "u", "timezone": "Europe/Copenhagen"})
    for number in range(2):
        db["notification_tokens"].insert_one(
            {
                "_id": f"t{number}",
                "userId": "u",
                "deviceId": f"d{number}",
                "token": f"ExponentPushToken[{number}]",
                "isActive": True,
            }
        )


def alert(**fields):
    """The least that another program must say; `...` leaves a field out."""
    row = {
        "_id": "alert",
        "userId": "u",
        "category": "safety",
        "label": "storm",
        "scheduledAt": datetime.now(UTC) - timedelta(seconds=1),
        "title": "Storm",
        "body": "Stay inside",
    }
    return {name: value for name, value in {**row, **fields}.items() if value is not ...}


@pytest.mark.usefixtures("person")
def test_an_alert_becomes_one_whole_row_per_phone(db, adopter):
    db["notification_messages"].insert_one(alert())
    assert adopter.adopt(list(db["notification_messages"].find()), server_now(db)) == 2
    found = list(db["notification_messages"].find())
    assert {(row["deviceId"], row["notificationTokenId"]) for row in found} == {("d0", "t0"), ("d1", "t1")}
    for row in found:
        assert (row["status"], row["isDeleted"], row["attempts"], row["claim"]) == ("pending", False, 0, None)
        assert (row["title"], row["timezone"]) == ("Storm", "Europe/Copenhagen")
        assert "reminderId" not in row


@pytest.mark.usefixtures("person")
def test_adopting_again_changes_nothing(db, adopter):
    db["notification_messages"].insert_one(alert())
    raw = list(db["notification_messages"].find())
    adopter.adopt(raw, server_now(db))
    before = sorted(db["notification_messages"].find(), key=lambda row: row["_id"])
    assert adopter.adopt(raw, server_now(db)) == 0
    assert sorted(db["notification_messages"].find(), key=lambda row: row["_id"]) == before


@pytest.mark.usefixtures("person")
def test_a_null_reminder_is_taken_out_so_that_the_next_alert_fits_beside_it(db, adopter):
    for number in range(2):
        db["notification_messages"].insert_one(alert(_id=f"a{number}", label=f"l{number}", reminderId=None))
    adopter.adopt(list(db["notification_messages"].find()), server_now(db))
    found = list(db["notification_messages"].find())
    assert len(found) == 4
    assert not any("reminderId" in row for row in found)


@pytest.mark.usefixtures("person")
def test_two_identical_alerts_end_as_one_per_phone_and_stop_nobody(db, sweep):
    instant = datetime.now(UTC) - timedelta(seconds=1)
    for number in range(2):
        db["notification_messages"].insert_one(alert(_id=f"a{number}", scheduledAt=instant))
    sweep()
    sweep()
    found = list(db["notification_messages"].find())
    pending = [row for row in found if row["status"] == "pending"]
    assert {row["deviceId"] for row in pending} == {"d0", "d1"}
    assert len(pending) == 2
    assert all("isDeleted" in row for row in found)


HOSTILE = {
    "no user": {"userId": ...},
    "a user who does not exist": {"userId": "nobody"},
    "an id that is a document": {"_id": {"a": 1}},
    "an id that is a number": {"_id": 7},
    "category missing": {"category": ...},
    "category of the wrong type": {"category": ["safety"]},
    "category that is a document": {"category": {"a": 1}},
    "category nobody knows": {"category": "weather"},
    "label missing": {"label": ...},
    "label of the wrong type": {"label": {"a": 1}},
    "instant missing": {"scheduledAt": ...},
    "instant is text": {"scheduledAt": "now"},
    "instant long past": {"scheduledAt": datetime(1970, 1, 1, tzinfo=UTC)},
    "instant before the calendar": {"scheduledAt": DatetimeMS(-(10**15))},
    "title missing": {"title": ...},
    "title of the wrong type": {"title": 5},
    "body of the wrong type": {"body": []},
    "status is a list": {"status": []},
    "status is a document": {"status": {"a": 1}},
    "status nobody knows": {"status": "waiting"},
    "device nobody has": {"deviceId": "elsewhere"},
    "device is a document": {"deviceId": {"a": 1}},
    "device is a list": {"deviceId": [1]},
    "half the bookkeeping, no device": {"isDeleted": False, "status": "pending"},
    "half the bookkeeping, no category": {"isDeleted": False, "status": "pending", "category": ...},
    "half the bookkeeping, strange category": {"isDeleted": False, "status": "pending", "category": [1]},
    "whole but for its category": {"isDeleted": False, "status": "pending", "deviceId": "d0", "category": ...},
    "whole but for a strange category": {
        "isDeleted": False,
        "status": "pending",
        "deviceId": "d0",
        "category": {"a": 1},
    },
    "whole but for its user": {"isDeleted": False, "status": "pending", "deviceId": "d0", "userId": ...},
    "whole but for its words": {"isDeleted": False, "status": "pending", "deviceId": "d0", "title": {}, "body": 1},
    "claim of the wrong type": {"isDeleted": False, "status": "pending", "deviceId": "nobody", "claim": "me"},
    "deleted flag without status": {"isDeleted": False},
    "deleted flag without status, with a device": {"isDeleted": False, "deviceId": "d0"},
    "deleted flag is text": {"isDeleted": "no"},
    "local date of the wrong type": {"localDate": 20260601},
}


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_row_stops_no_sweep(db, sweep, name):
    db["notification_messages"].insert_one(alert(**HOSTILE[name]))
    db["notification_messages"].insert_one(alert(_id="good", label="flood"))
    sweep()
    sweep()
    good = list(db["notification_messages"].find({"label": "flood"}))
    assert {row["deviceId"] for row in good} == {"d0", "d1"}
    assert all(row["enqueuedAt"] is not None for row in good)


# What no consumer will ever ring must be ended by the sweep itself.
UNSENDABLE = [name for name in HOSTILE if not name.startswith(("an id", "half the bookkeeping, no device"))]
SENDABLE = {
    "title of the wrong type",
    "whole but for its words",
    "whole but for its user",
    "deleted flag without status",
    "deleted flag without status, with a device",
    "deleted flag is text",
    "local date of the wrong type",
}


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("name", [name for name in UNSENDABLE if name not in SENDABLE])
def test_what_cannot_be_made_whole_ends_with_a_reason(db, sweep, name):
    row = alert(**HOSTILE[name])
    db["notification_messages"].insert_one(row)
    sweep()
    sweep()
    ended = db["notification_messages"].find_one({"_id": row["_id"]}, {"status": 1, "reason": 1, "resolvedAt": 1})
    assert ended["status"] in ENDED
    assert ended["reason"]
    assert ended["resolvedAt"] is not None


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("name", ["deleted flag without status", "deleted flag without status, with a device"])
def test_a_row_without_a_state_is_not_forgotten(db, sweep, name):
    db["notification_messages"].insert_one(alert(**HOSTILE[name]))
    sweep()
    sweep()
    row = db["notification_messages"].find_one({"_id": "alert"})
    assert row.get("status") in {"pending", *ENDED}
    assert row["status"] in ENDED or row["enqueuedAt"] is not None


@pytest.mark.usefixtures("person")
def test_a_planned_row_that_must_move_onto_another_ends_as_superseded(db, rows, sweep):
    """The user has moved west: the noon of one row has become the noon of another of the same label."""
    now = datetime.now(UTC)
    ahead = (now + timedelta(hours=3)).replace(second=0, microsecond=0)
    db["users"].replace_one({"_id": "u"}, {"_id": "u", "timezone": "UTC"})
    for number in range(2):
        db["reminders"].insert_one(
            {
                "_id": f"r{number}",
                "userId": "u",
                "category": "meal",
                "label": "lunch",
                "localTimes": [ahead.strftime("%H:%M")],
                "title": "Lunch",
                "body": "Eat",
            }
        )
    fields = {"userId": "u", "deviceId": "d0", "notificationTokenId": "t0", "localTime": ahead.strftime("%H:%M")}
    fields["localDate"] = ahead.date().isoformat()
    rows.plant(reminderId="r0", scheduledAt=ahead, **fields)
    overdue = rows.plant(reminderId="r1", scheduledAt=now - timedelta(minutes=1), **fields)
    sweep()
    row = rows.see(overdue)
    assert (row["status"], row["reason"]) == ("is_missed", "superseded")


@pytest.mark.usefixtures("person")
def test_a_row_under_a_live_claim_is_left_alone(rows, sweep, held):
    long_ago = datetime.now(UTC) - timedelta(hours=2)
    fields = {"userId": "u", "deviceId": "d0", "reminderId": ..., "scheduledAt": long_ago, "enqueuedAt": long_ago}
    mine, free = rows.plant(claim=held(), **fields), rows.plant(**{**fields, "label": "other"})
    before = rows.see(mine)
    sweep()
    assert rows.see(mine) == before
    assert rows.see(free)["reason"] == "too_late"


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("fault", [{"title": 7}, {"userId": "nobody"}, {"deviceId": "unknown"}])
def test_two_alerts_that_name_one_reminder_and_must_end_stop_no_sweep(db, sweep, fault):
    for number in range(2):
        db["notification_messages"].insert_one(alert(_id=f"alert{number}", reminderId="r1", localTime="12:00", **fault))
    good = alert(_id="good", label="flood")
    db["notification_messages"].insert_one(good)
    sweep()
    sweep()
    twins = {"_id": {"$in": ["alert0", "alert1"]}, "resolvedAt": {"$ne": None}}
    assert db["notification_messages"].count_documents(twins) == 2
    assert db["notification_messages"].find_one({"_id": "good"})["deviceId"] is not None
