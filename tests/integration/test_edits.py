"""What users and other programs change between plan and plan, and between plan and send, through the real planner."""

from datetime import UTC, date, time, timedelta

import pytest

from creator.plan import Planner, PlanOptions
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.client import server_now
from shared.adapters.mongo.plan_rows import PlanRows
from shared.adapters.mongo.relocation import Relocated, Relocator
from shared.domain.decision import Rules
from shared.domain.localtime import resolve
from shared.domain.moves import Placement
from shared.domain.policy import CategoryPolicy
from shared.domain.zones import parse_zone
from shared.runtime.metrics import Metrics

POLICIES = {name: CategoryPolicy(timedelta(minutes=30)) for name in ("meal", "mood")}
RULES = {name: Rules(policy, 5, timedelta(seconds=30)) for name, policy in POLICIES.items()}
HOURLY = ["22:30", "23:30"]


@pytest.fixture
def plan(db):
    def run():
        planner = Planner(Audience(db), PlanRows(db), POLICIES, Metrics())
        return planner.run(server_now(db), PlanOptions(timedelta(hours=48)))

    return run


@pytest.fixture(autouse=True)
def drinker(db):
    """A user in Copenhagen with one phone, reminded at two times an hour apart."""
    db["users"].insert_one({"_id": "u", "timezone": "Europe/Copenhagen"})
    token = {"userId": "u", "deviceId": "d", "token": "ExponentPushToken[u]", "isActive": True}
    db["notification_tokens"].insert_one({"_id": "t", **token})
    texts = {"title": "Water", "body": "Drink"}
    db["reminders"].insert_one(
        {"_id": "r", "userId": "u", "category": "meal", "label": "water", "localTimes": HOURLY, **texts}
    )


def live(db):
    return list(db["notification_messages"].find({"status": "pending", "isDeleted": False}).sort("scheduledAt", 1))


def instants_in(zone_name, db):
    zone = parse_zone(zone_name)
    now = server_now(db)
    days = [now.date() + timedelta(days=offset) for offset in range(-1, 4)]
    found = (resolve(day, time.fromisoformat(text), zone) for day in days for text in HOURLY)
    return [one for one in found if one is not None and now < one < now + timedelta(hours=47)]


@pytest.mark.parametrize("zone", ["Europe/London", "Europe/Athens", "Atlantic/Azores", "America/New_York"])
def test_a_flight_shifts_hourly_times_and_loses_none(db, plan, zone):
    plan()
    keys = {(row["localDate"], row["localTime"]) for row in live(db)}
    db["users"].update_one({"_id": "u"}, {"$set": {"timezone": zone}})
    plan()
    assert db["notification_messages"].count_documents({"status": "is_missed"}) == 0
    now_planned = {row["scheduledAt"].astimezone(UTC) for row in live(db)}
    assert set(instants_in(zone, db)) <= now_planned
    assert keys <= {(row["localDate"], row["localTime"]) for row in live(db)} | _passed(zone, keys, db)


def _passed(zone_name, keys, db):
    """The keys whose instant is over in that zone: those rows are the send stage's to judge."""
    zone, now = parse_zone(zone_name), server_now(db)
    passed = set()
    for local_date, local_time in keys:
        instant = resolve(date.fromisoformat(local_date), time.fromisoformat(local_time), zone)
        if instant is None or instant <= now:
            passed.add((local_date, local_time))
    return passed


def test_the_consumer_moves_a_row_together_with_what_stands_in_its_way(db, plan):
    plan()
    before = live(db)
    db["users"].update_one({"_id": "u"}, {"$set": {"timezone": "Europe/London"}})
    first, second = before[0], before[1]
    relocator = Relocator(db, RULES)
    hour = timedelta(hours=1)
    assert first["scheduledAt"] + hour == second["scheduledAt"], "the second stands where the first must go"
    placement = Placement(second["scheduledAt"], "Europe/London", "t")
    assert relocator.relocate(first, placement, None) is Relocated.MOVED
    after = {row["_id"]: row["scheduledAt"] for row in live(db)}
    assert after[first["_id"]] == second["scheduledAt"]
    assert after[second["_id"]] == second["scheduledAt"] + hour


def test_what_stands_there_by_right_makes_the_other_superfluous(db, plan):
    plan()
    first, second, *_ = live(db)
    placement = Placement(second["scheduledAt"], "Europe/Copenhagen", "t")
    assert Relocator(db, RULES).relocate(first, placement, None) is Relocated.SUPERSEDED
    row = db["notification_messages"].find_one({"_id": first["_id"]})
    assert (row["status"], row["reason"]) == ("is_missed", "superseded")


@pytest.mark.parametrize("change", [{"label": "tea"}, {"category": "mood"}, {"category": "mood", "label": "tea"}])
def test_a_renamed_reminder_keeps_its_rows_under_the_new_name(db, plan, change):
    plan()
    ids = {row["_id"] for row in live(db)}
    db["notification_messages"].update_many({}, {"$set": {"enqueuedAt": server_now(db)}})
    db["reminders"].update_one({"_id": "r"}, {"$set": change})
    plan()
    rows = live(db)
    assert {row["_id"] for row in rows} == ids
    assert all(change.items() <= row.items() for row in rows)
    assert all(row["enqueuedAt"] is None for row in rows), "its alarm waits on the old queue"


@pytest.mark.parametrize(
    "odd",
    [
        {"localDate": "2026-11-30T00:00:00Z", "localTime": "09:00"},
        {"localDate": "tomorrow", "localTime": ["09:00"]},
        {"localDate": None, "localTime": {"at": 9}},
        {},
    ],
    ids=str,
)
def test_a_row_of_another_program_under_our_reminder_stops_no_plan(db, plan, odd):
    today = server_now(db).date().isoformat()
    row = {"reminderId": "r", "localDate": today, "status": "pending", "isDeleted": False, **odd}
    db["notification_messages"].insert_one(row)
    db["notification_messages"].insert_one({**row, "_id": 2, "deviceId": "d", "status": "failed", "x": 1})
    assert plan().planned > 0
