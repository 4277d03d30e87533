"""Rows that are moved, re-targeted, re-worded or soft-deleted: by whom, and which of them never."""

import pytest

from shared.domain import moves
from shared.domain.moves import Placement
from shared.domain.states import DeletedReason
from tests.integration.row_moves import ENDED, at, refuses

PERHAPS_SENT = [{"attemptId": "a"}, {"unresolvedAttempts": 1}, {"attemptId": "a", "unresolvedAttempts": 1}]


def test_a_planner_moves_a_free_future_row_to_its_new_instant(rows):
    row_id = rows.plant(scheduledAt=at(600), enqueuedAt=at(-60), nextAttemptAt=at(-1), claim={})
    started, instant = at(0), at(7200)
    assert (
        rows.make(moves.move_in_place(row_id, Placement(instant, "Asia/Tokyo", "new"), None, planned_at=started)) == 1
    )
    row = rows.see(row_id)
    assert row["scheduledAt"] == instant
    assert (row["timezone"], row["notificationTokenId"], row["plannedAt"]) == ("Asia/Tokyo", "new", started)
    assert (row["claim"], row["enqueuedAt"], row["nextAttemptAt"]) == (None, None, None)
    assert (row["localDate"], row["localTime"], row["status"]) == ("2026-06-01", "12:00", "pending")


PLANNERS = {
    "move_in_place": lambda row_id, started: moves.move_in_place(
        row_id, Placement(at(7200), "UTC", "t"), None, planned_at=started
    ),
    "soft_delete": lambda row_id, started: moves.soft_delete([row_id], DeletedReason.REMINDER_CHANGED, started),
}
planners = pytest.mark.parametrize("make", PLANNERS.values(), ids=PLANNERS)


@planners
@pytest.mark.parametrize(
    "fields",
    [
        lambda: {"scheduledAt": at(-1)},
        lambda: {"plannedAt": at(60)},
        lambda: {"claim": {"owner": "x", "expiresAt": at(60)}},
        lambda: {"attemptId": "a"},
        lambda: {"unresolvedAttempts": 1},
        lambda: {"isDeleted": True},
        lambda: {"status": "sent"},
        lambda: {"status": "success"},
        lambda: {"status": "failed"},
        lambda: {"status": "is_missed"},
    ],
    ids=["due", "newer plan", "claimed", "attempted", "unresolved", "deleted", "sent", *ENDED],
)
def test_a_planner_leaves_alone_what_is_not_its_own(rows, make, fields):
    row_id = rows.plant(**{"scheduledAt": at(600), **fields()})
    assert refuses(rows, row_id, make(row_id, at(0)))


@planners
def test_a_slow_plan_cannot_undo_a_newer_one(rows, make):
    row_id = rows.plant(scheduledAt=at(600))
    slow, quick = at(-30), at(-10)
    instant = at(7200)
    assert rows.make(moves.move_in_place(row_id, Placement(instant, "UTC", "t"), None, planned_at=quick)) == 1
    assert refuses(rows, row_id, make(row_id, slow))
    assert refuses(rows, row_id, make(row_id, quick))
    assert rows.see(row_id)["scheduledAt"] == instant


@planners
def test_a_plan_cannot_undo_what_a_consumer_has_moved_since(rows, held, make):
    row_id = rows.plant(claim=held())
    started = at(-1)
    assert rows.make(moves.move_in_place(row_id, Placement(at(7200), "UTC", "t"), "me")) == 1
    assert refuses(rows, row_id, make(row_id, started))


def test_a_consumer_moves_a_due_row_that_it_holds(rows, held):
    row_id, instant = rows.plant(claim=held(), enqueuedAt=at(-60)), at(3600)
    assert rows.make(moves.move_in_place(row_id, Placement(instant, "America/Lima", "t"), "me")) == 1
    row = rows.see(row_id)
    assert (row["scheduledAt"], row["claim"], row["enqueuedAt"]) == (instant, None, None)
    assert at(-5) < row["plannedAt"] <= at(0.01)


def test_names_of_zones_and_tokens_are_taken_literally(rows):
    row_id = rows.plant(scheduledAt=at(600))
    rows.make(moves.move_in_place(row_id, Placement(at(900), "$title", "$body"), None))
    row = rows.see(row_id)
    assert (row["timezone"], row["notificationTokenId"]) == ("$title", "$body")


def test_a_move_onto_anothers_instant_is_refused_by_the_index_and_changes_nothing(rows):
    instant = at(7200)
    same = {"userId": "u", "notificationTokenId": "t"}
    rows.plant(scheduledAt=instant, **same)
    row_id = rows.plant(scheduledAt=at(600), **same)
    before = rows.see(row_id)
    assert rows.store.apply_unless_taken(moves.move_in_place(row_id, Placement(instant, "UTC", "t"), None)) is None
    assert rows.see(row_id) == before


def test_a_row_follows_its_devices_new_token(rows, held):
    row_id = rows.plant(claim=held())
    assert rows.make(moves.retarget(row_id, "new", "me")) == 1
    row = rows.see(row_id)
    assert (row["notificationTokenId"], row["claim"]["owner"]) == ("new", "me")


@pytest.mark.parametrize("fields", PERHAPS_SENT, ids=repr)
def test_a_row_that_was_perhaps_sent_keeps_its_token(rows, held, fields):
    row_id = rows.plant(claim=held(), **fields)
    assert refuses(rows, row_id, moves.retarget(row_id, "new", "me"))


@pytest.mark.parametrize("fields", [{"claim": None}, {"status": "sent"}, {"isDeleted": True}], ids=repr)
def test_only_the_holder_of_a_pending_row_re_targets_it(rows, held, fields):
    row_id = rows.plant(**{"claim": held(), **fields})
    assert refuses(rows, row_id, moves.retarget(row_id, "new", "me"))


def test_a_token_that_another_row_holds_at_that_instant_is_refused(rows, held):
    same = {"userId": "u", "scheduledAt": at(-5)}
    rows.plant(notificationTokenId="new", **same)
    row_id = rows.plant(notificationTokenId="old", claim=held(), **same)
    assert rows.store.apply_unless_taken(moves.retarget(row_id, "new", "me")) is None
    assert rows.see(row_id)["notificationTokenId"] == "old"


def test_one_refused_move_does_not_stop_the_others(rows):
    """Moves that touch a unique key are made one by one: a collision is one row's own affair."""
    instant, same = at(7200), {"userId": "u", "notificationTokenId": "t"}
    rows.plant(scheduledAt=instant, **same)
    collides = rows.plant(scheduledAt=at(600), **same)
    passes = rows.plant(scheduledAt=at(600))
    results = [
        rows.store.apply_unless_taken(moves.move_in_place(one, Placement(instant, "UTC", "t"), None))
        for one in (collides, passes)
    ]
    assert results == [None, 1]


def test_the_words_that_are_really_sent_are_kept_as_they_are(rows, held):
    row_id = rows.plant(claim=held())
    words = {"title": "$title", "body": "{$x}", "data": {"url": "$a"}}
    assert rows.make(moves.refresh_content(row_id, words, "me")) == 1
    row = rows.see(row_id)
    assert {name: row[name] for name in words} == words


@pytest.mark.parametrize("fields", [{"claim": None}, {"status": "sent"}, {"isDeleted": True}], ids=repr)
def test_only_the_holder_writes_words(rows, held, fields):
    row_id = rows.plant(**{"claim": held(), **fields})
    assert refuses(rows, row_id, moves.refresh_content(row_id, {"title": "x"}, "me"))


def test_many_moves_of_one_row_each_go_in_one_round_trip(rows, held):
    ids = rows.plant_many(5, claim=held())
    lost = rows.plant(claim=held("another"))
    each = [moves.refresh_content(row_id, {"title": row_id}, "me") for row_id in [*ids, lost]]
    assert rows.store.apply_each(each) == 5
    assert [rows.see(row_id)["title"] for row_id in ids] == ids
    assert rows.store.apply_each([]) == 0


# --- deleted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", DeletedReason)
def test_a_row_of_an_occurrence_that_no_longer_exists_is_soft_deleted(rows, reason):
    row_id = rows.plant(scheduledAt=at(600), claim={"owner": "x", "expiresAt": at(-1)})
    assert rows.make(moves.soft_delete([row_id], reason, at(0))) == 1
    row = rows.see(row_id)
    assert (row["status"], row["isDeleted"], row["reason"], row["claim"]) == ("pending", True, reason.value, None)
    assert row["resolvedAt"] is not None


def test_a_soft_deleted_row_is_out_of_everybodys_reach(rows, held):
    row_id = rows.plant(isDeleted=True, scheduledAt=at(-5), claim=held(), attemptId="a")
    for move in (
        moves.claim([row_id], "x", 1000),
        moves.release([row_id], "me"),
        moves.record_sent("a", {row_id: "t"}, 1),
        moves.give_up([row_id], None),
        moves.enqueued([row_id]),
        moves.unqueue([row_id]),
    ):
        assert refuses(rows, row_id, move)
