"""Inserting what a plan wants: each occurrence once, whoever else plans, and nothing lost in the counting."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shared.adapters.mongo.plan_rows import PlanRows
from shared.domain import moves
from shared.domain.moves import Placement
from shared.domain.states import DeletedReason

AHEAD = datetime(2030, 6, 1, 10, 0, tzinfo=UTC)


@pytest.fixture
def plan(db):
    return PlanRows(db)


def wanted(rows, **fields):
    """A row as the planner makes it: without an id."""
    return rows.document(_id=..., **{"scheduledAt": AHEAD, **fields})


def test_new_rows_go_in(plan, rows):
    result = plan.insert([wanted(rows) for _ in range(5)])
    assert (result.inserted, result.already, result.same_instant, result.errors) == ([0, 1, 2, 3, 4], 0, [], [])
    assert rows.collection.count_documents({}) == 5


def test_nothing_is_no_write(plan):
    assert plan.insert([]).inserted == []


@pytest.mark.parametrize("status", ["pending", "sent", "success", "failed", "is_missed"])
def test_an_occurrence_that_exists_in_whatever_state_is_already_planned(plan, rows, status):
    row = wanted(rows)
    rows.collection.insert_one({**row, "status": status})
    result = plan.insert([dict(row), wanted(rows)])
    assert (result.inserted, result.already, result.same_instant) == ([1], 1, [])


def test_a_delivered_occurrence_cannot_come_again_by_a_new_token_or_zone(plan, rows):
    row = wanted(rows)
    rows.collection.insert_one({**row, "status": "success"})
    again = {**row, "notificationTokenId": "new", "scheduledAt": AHEAD + timedelta(hours=9), "timezone": "Asia/Tokyo"}
    assert plan.insert([again]).already == 1


def test_another_reminder_of_the_label_at_that_instant_is_told_apart(plan, rows):
    row = wanted(rows)
    rows.collection.insert_one(dict(row))
    twin = {**row, "reminderId": "another"}
    result = plan.insert([twin, wanted(rows)])
    assert (result.inserted, result.already) == ([1], 0)
    assert [one["reminderId"] for one in result.same_instant] == ["another"]
    assert "_id" not in result.same_instant[0]


def test_a_row_refused_for_its_instant_can_be_inserted_once_that_is_free(plan, rows):
    row = wanted(rows)
    first = plan.insert([row])
    in_the_way = plan.insert([{**row, "_id": "twin", "reminderId": "another"}]).same_instant
    rows.collection.delete_many({"reminderId": row["reminderId"]})
    assert first.inserted == [0]
    assert plan.insert(in_the_way).inserted == [0]


def test_a_soft_deleted_row_frees_both_keys(plan, rows):
    row = wanted(rows)
    rows.collection.insert_one({**row, "isDeleted": True})
    assert plan.insert([dict(row)]).inserted == [0]


def test_two_devices_of_one_user_are_two_rows(plan, rows):
    row = wanted(rows)
    other = {**row, "deviceId": "tablet", "notificationTokenId": "t2"}
    assert plan.insert([row, other]).inserted == [0, 1]


def test_twins_within_one_batch_are_one_row(plan, rows):
    row = wanted(rows)
    result = plan.insert([dict(row), dict(row)])
    assert (result.inserted, result.already) == ([0], 1)


def test_ids_of_any_type_are_recognised(plan, rows):
    row = wanted(rows, reminderId={"a": [1, 2]}, deviceId={"b": 1})
    rows.collection.insert_one(dict(row))
    assert plan.insert([dict(row)]).already == 1


def test_four_plans_at_once_insert_everything_once_and_agree_on_it(db, rows):
    documents = [wanted(rows) for _ in range(200)]
    start = threading.Barrier(4)

    def run(_):
        mine = [dict(row) for row in documents]
        start.wait(10)
        return PlanRows(db).insert(mine)

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, range(4)))
    assert sum(len(result.inserted) for result in results) == 200
    assert sum(result.already for result in results) == 600
    assert not any(result.errors or result.same_instant for result in results)
    assert rows.collection.count_documents({}) == 200


def test_a_real_error_is_told_and_spares_the_others(db, plan, rows):
    db.command("collMod", "notification_messages", validator={"label": {"$ne": "forbidden"}})
    try:
        result = plan.insert([wanted(rows), wanted(rows, label="forbidden"), wanted(rows)])
    finally:
        db.command("collMod", "notification_messages", validator={})
    assert (result.inserted, result.already) == ([0, 2], 0)
    ((position, text),) = result.errors
    assert position == 1
    assert text.startswith("121")


def test_known_are_the_occurrences_of_these_reminders_in_these_dates(plan, rows):
    here = rows.plant(reminderId="r", localDate="2026-06-01", status="success")
    rows.plant(reminderId="r", localDate="2026-05-31", deviceId="x")
    rows.plant(reminderId="r", localDate="2026-06-03", deviceId="x")
    rows.plant(reminderId="other", localDate="2026-06-01")
    rows.plant(reminderId="r", localDate="2026-06-02", isDeleted=True)
    last = rows.plant(reminderId="r", localDate="2026-06-02")
    found = plan.known(["r"], "2026-06-01", "2026-06-02")
    assert {row["_id"] for row in found} == {here, last}
    needed = {"reminderId", "deviceId", "localDate", "localTime", "status", "scheduledAt"}
    assert all(needed <= row.keys() for row in found)


def test_a_move_onto_a_taken_instant_is_none(plan, rows):
    same = {"userId": "u", "notificationTokenId": "t"}
    rows.plant(scheduledAt=AHEAD, **same)
    row_id = rows.plant(scheduledAt=AHEAD + timedelta(hours=1), **same)
    move = moves.move_in_place(row_id, Placement(AHEAD, "UTC", "t"), None, planned_at=datetime.now(UTC))
    assert plan.apply(move) is None
    assert plan.apply(moves.soft_delete([row_id], DeletedReason.USER_MOVED, datetime.now(UTC))) == 1


def test_consumer_planner_and_a_second_plan_that_move_at_once_leave_one_row(db, rows):
    """A row that several hands move to one instant, while a plan inserts it anew, is one row at that instant."""
    for _ in range(15):
        row_id = rows.plant(scheduledAt=AHEAD - timedelta(hours=1))
        row = rows.see(row_id)
        anew = {**{k: v for k, v in row.items() if k != "_id"}, "scheduledAt": AHEAD}
        start = threading.Barrier(3)

        def race(act, barrier=start):
            barrier.wait(10)
            return act(PlanRows(db))

        placement = Placement(AHEAD, "America/New_York", row["notificationTokenId"])
        acts = [
            lambda plan, i=row_id, p=placement: plan.apply(moves.move_in_place(i, p, None)),
            lambda plan, i=row_id, p=placement: plan.apply(
                moves.move_in_place(i, p, None, planned_at=datetime.now(UTC))
            ),
            lambda plan, new=anew: len(plan.insert([new]).inserted),
        ]
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(race, acts))
        (found,) = rows.collection.find({"reminderId": row["reminderId"], "isDeleted": False})
        assert (found["_id"], found["scheduledAt"]) == (row_id, AHEAD)
