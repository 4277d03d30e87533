"""Every guard of every move, against the real server: what a move does, and all that it must leave alone."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.domain import moves
from shared.domain.moves import Placement
from shared.domain.states import DeletedReason, Reason


def at(seconds):
    """A whole millisecond, as the server keeps it."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


ENDED = ("success", "failed", "is_missed")


def refuses(rows, row_id, move):
    """The move matches nothing and changes nothing."""
    before = rows.see(row_id)
    moved = rows.make(move)
    return moved == 0 and rows.see(row_id) == before


# --- release ------------------------------------------------------------------------------------------------


def test_release_hands_back_what_is_mine_alone(rows, held):
    mine, yours = rows.plant(claim=held()), rows.plant(claim=held("you"))
    assert rows.make(moves.release([mine, yours], "me")) == 1
    assert rows.see(mine)["claim"] is None
    assert rows.see(yours)["claim"]["owner"] == "you"


@pytest.mark.parametrize("status", ["sent", *ENDED])
def test_release_touches_no_row_that_has_moved_on(rows, held, status):
    row_id = rows.plant(claim=held(), status=status)
    assert refuses(rows, row_id, moves.release([row_id], "me"))


# --- what became of a request ---------------------------------------------------------------------------------

RECORDS = {
    "record_sent": lambda row_id: moves.record_sent("a", {row_id: "ticket"}, 900_000),
    "record_refused": lambda row_id: moves.record_refused("a", [row_id], 4_000),
    "record_unmade": lambda row_id: moves.record_unmade("a", [row_id], 4_000),
    "reopen": lambda row_id: moves.reopen("a", [row_id]),
    "record_unknown": lambda row_id: moves.record_unknown("a", [row_id], 30_000),
    "record_failed": lambda row_id: moves.record_failed("a", [row_id], Reason.INVALID_PAYLOAD, "s"),
}
record = pytest.mark.parametrize("make", RECORDS.values(), ids=RECORDS)


@record
def test_an_answer_is_recorded_by_its_attempt_even_after_the_lease(rows, held, make):
    row_id = rows.plant(attemptId="a", attempts=1, claim=held(seconds=-30))
    assert rows.make(make(row_id)) == 1
    assert rows.see(row_id)["attemptId"] is None


@record
def test_an_answer_is_recorded_even_while_somebody_else_holds_the_row(rows, held, make):
    row_id = rows.plant(attemptId="a", attempts=1, claim=held("another"))
    assert rows.make(make(row_id)) == 1


@record
@pytest.mark.parametrize(
    "fields",
    [
        {"attemptId": "newer"},
        {"attemptId": None},
        {"attemptId": ...},
        {"attemptId": "a", "isDeleted": True},
        *({"attemptId": "a", "status": status} for status in ("sent", *ENDED)),
    ],
    ids=repr,
)
def test_an_answer_to_a_row_that_does_not_bear_its_attempt_matches_nothing(rows, held, make, fields):
    row_id = rows.plant(claim=held(), **fields)
    assert refuses(rows, row_id, make(row_id))


@record
def test_an_answer_can_be_recorded_once(rows, make):
    row_id = rows.plant(attemptId="a", attempts=1)
    assert rows.make(make(row_id)) == 1
    assert refuses(rows, row_id, make(row_id))


def test_accepted_rows_keep_their_own_tickets(rows, held):
    ids = rows.plant_many(30, attemptId="a", claim=held())
    tickets = {row_id: f"ticket-{row_id}" for row_id in reversed(ids)}
    assert rows.make(moves.record_sent("a", tickets, 900_000)) == 30
    for row_id in ids:
        row = rows.see(row_id)
        assert (row["status"], row["ticketId"], row["claim"]) == ("sent", f"ticket-{row_id}", None)
        assert row["nextAttemptAt"] - row["sentAt"] == timedelta(seconds=900)
        assert row["enqueuedAt"] == row["sentAt"]


def test_tickets_and_ids_that_look_like_expressions_are_taken_literally(rows):
    row_id = rows.plant(_id={"a": "$title"}, attemptId="a")
    assert rows.make(moves.record_sent("a", {FrozenId(row_id): "$title"}, 1)) == 1
    assert rows.see(row_id)["ticketId"] == "$title"


class FrozenId(dict):
    """A document id that can be a key of a mapping."""

    def __hash__(self):
        return hash(tuple(self.items()))


def test_a_definite_refusal_waits_and_counts_as_an_attempt(rows, held):
    row_id = rows.plant(attemptId="a", attempts=3, unresolvedAttempts=1, claim=held())
    rows.make(moves.record_refused("a", [row_id], 4_000))
    row = rows.see(row_id)
    assert (row["status"], row["claim"], row["attempts"], row["unresolvedAttempts"]) == ("pending", None, 3, 1)
    assert at(3.5) < row["nextAttemptAt"] < at(4.1)


def test_a_request_that_said_nothing_about_a_row_counts_as_never_made(rows, held):
    row_id = rows.plant(attemptId="a", attempts=3, claim=held())
    rows.make(moves.record_unmade("a", [row_id], 0))
    row = rows.see(row_id)
    assert (row["attempts"], row["unresolvedAttempts"], row["claim"]) == (2, 0, None)


def test_a_reopened_row_keeps_its_claim_for_the_next_mark(rows, held):
    row_id = rows.plant(attemptId="a", attempts=1, claim=held())
    rows.make(moves.reopen("a", [row_id]))
    row = rows.see(row_id)
    assert (row["claim"]["owner"], row["attempts"], row["nextAttemptAt"]) == ("me", 1, None)


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 2), (..., 1), (None, 1)])
def test_an_unknown_outcome_is_counted_for_ever(rows, held, before, after):
    row_id = rows.plant(attemptId="a", attempts=1, unresolvedAttempts=before, claim=held())
    rows.make(moves.record_unknown("a", [row_id], 30_000))
    row = rows.see(row_id)
    assert (row["unresolvedAttempts"], row["claim"], row["status"]) == (after, None, "pending")
    assert at(29) < row["nextAttemptAt"] < at(30.1)


@pytest.mark.parametrize(
    "make",
    [
        lambda i: moves.record_sent("a", {i: "t"}, 1),
        lambda i: moves.record_refused("a", [i], 1),
        lambda i: moves.record_unmade("a", [i], 1),
        lambda i: moves.reopen("a", [i]),
        lambda i: moves.record_failed("a", [i], Reason.CREDENTIALS, "s"),
    ],
)
def test_no_answer_ever_lowers_the_count_of_unknown_outcomes(rows, make):
    row_id = rows.plant(attemptId="a", attempts=2, unresolvedAttempts=1)
    rows.make(make(row_id))
    assert rows.see(row_id)["unresolvedAttempts"] == 1


def test_a_refused_row_ends_with_its_reason(rows, held):
    row_id = rows.plant(attemptId="a", claim=held())
    rows.make(moves.record_failed("a", [row_id], Reason.MESSAGE_TOO_BIG, "settler"))
    row = rows.see(row_id)
    assert (row["status"], row["reason"], row["claim"], row["settledBy"]) == (
        "failed",
        "message_too_big",
        None,
        "settler",
    )
    assert at(-5) < row["resolvedAt"] <= at(0.01)


# --- decided without a request ----------------------------------------------------------------------------------

DECIDED = {
    "miss": lambda row_id, owner: moves.miss([row_id], Reason.TOO_LATE, owner),
    "reject": lambda row_id, owner: moves.reject([row_id], Reason.RETRIES_EXHAUSTED, owner),
    "move_in_place": lambda row_id, owner: moves.move_in_place(row_id, Placement(at(3600), "UTC", "t"), owner),
}
decided = pytest.mark.parametrize("make", DECIDED.values(), ids=DECIDED)
PERHAPS_SENT = [{"attemptId": "a"}, {"unresolvedAttempts": 1}, {"attemptId": "a", "unresolvedAttempts": 1}]


@decided
@pytest.mark.parametrize("fields", PERHAPS_SENT, ids=repr)
def test_a_row_that_was_perhaps_sent_is_not_missed_rejected_or_moved(rows, held, make, fields):
    mine, free = rows.plant(claim=held(), **fields), rows.plant(**fields)
    assert refuses(rows, mine, make(mine, "me"))
    assert refuses(rows, free, make(free, None))


@decided
def test_a_free_row_may_be_decided_by_anybody(rows, held, make):
    for claim in (None, ..., {}, held(seconds=-1)):
        row_id = rows.plant(claim=claim)
        assert rows.make(make(row_id, None)) == 1
        assert rows.see(row_id)["claim"] is None


@decided
def test_a_held_row_may_be_decided_by_its_holder_alone(rows, held, make):
    row_id = rows.plant(claim=held("holder"))
    assert refuses(rows, row_id, make(row_id, None))
    assert refuses(rows, row_id, make(row_id, "another"))
    assert rows.make(make(row_id, "holder")) == 1


@decided
@pytest.mark.parametrize("fields", [{"isDeleted": True}, *({"status": one} for one in ("sent", *ENDED))], ids=repr)
def test_a_row_that_is_not_pending_is_not_decided_again(rows, held, make, fields):
    row_id = rows.plant(claim=held(), **fields)
    assert refuses(rows, row_id, make(row_id, "me"))
    assert refuses(rows, row_id, make(row_id, None))


@decided
def test_whoever_lost_its_claim_to_a_decision_finds_nothing(rows, held, make):
    row_id = rows.plant(claim=held("zombie", -1))
    rows.make(make(row_id, None))
    assert refuses(rows, row_id, moves.mark([row_id], "zombie", "a", need_ms=-9_000_000, max_unresolved=9))
    assert refuses(rows, row_id, make(row_id, "zombie"))


def test_a_missed_row_says_why_and_when(rows):
    row_id = rows.plant()
    rows.make(moves.miss([row_id], Reason.OPTED_OUT, None))
    row = rows.see(row_id)
    assert (row["status"], row["reason"]) == ("is_missed", "opted_out")
    assert at(-5) < row["resolvedAt"] <= at(0.01)


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({"attemptId": "a"}, 1),
        ({"unresolvedAttempts": 1}, 1),
        ({"unresolvedAttempts": 2}, 2),
        ({"attemptId": "a", "unresolvedAttempts": 1}, 2),
        ({"attemptId": "a", "unresolvedAttempts": ...}, 1),
    ],
    ids=repr,
)
@pytest.mark.parametrize("owner", ["me", None])
def test_what_was_perhaps_sent_is_given_up_with_its_count(rows, held, fields, count, owner):
    row_id = rows.plant(claim=held(seconds=60 if owner else -1), **fields)
    assert rows.make(moves.give_up([row_id], owner)) == 1
    row = rows.see(row_id)
    assert (row["status"], row["reason"], row["attemptId"]) == ("failed", "outcome_unknown", None)
    assert row["unresolvedAttempts"] == count


@pytest.mark.parametrize("fields", [{}, {"attemptId": ..., "unresolvedAttempts": ...}], ids=repr)
def test_what_was_never_sent_cannot_be_given_up(rows, fields):
    row_id = rows.plant(**fields)
    assert refuses(rows, row_id, moves.give_up([row_id], None))


def test_a_row_whose_request_may_be_on_its_way_is_not_given_up_by_others(rows, held):
    row_id = rows.plant(attemptId="a", claim=held("sender"))
    assert refuses(rows, row_id, moves.give_up([row_id], None))
    assert refuses(rows, row_id, moves.give_up([row_id], "another"))


@pytest.mark.parametrize("status", ["sent", *ENDED])
def test_an_end_is_an_end(rows, status):
    row_id = rows.plant(status=status, unresolvedAttempts=1)
    assert refuses(rows, row_id, moves.give_up([row_id], None))


# --- moved and re-targeted ----------------------------------------------------------------------------------


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


# --- on and off the broker ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "noted"), [("pending", 1), ("sent", 1), *((one, 0) for one in ENDED)])
def test_rung_rows_are_noted_while_they_wait(rows, status, noted):
    row_id = rows.plant(status=status)
    assert rows.make(moves.enqueued([row_id])) == noted
    assert (rows.see(row_id)["enqueuedAt"] is not None) is bool(noted)


@pytest.mark.parametrize(("status", "left"), [("pending", 1), ("sent", 0), ("is_missed", 0)])
def test_a_row_can_be_left_to_the_relay_again_while_it_is_pending(rows, status, left):
    row_id = rows.plant(status=status, enqueuedAt=at(-5))
    assert rows.make(moves.unqueue([row_id])) == left


# --- receipts -----------------------------------------------------------------------------------------------

RECEIPTS = {
    "confirm": lambda tickets: moves.confirm(tickets, "s"),
    "leave_unconfirmed": moves.leave_unconfirmed,
    "receipt_failed": lambda tickets: moves.receipt_failed(tickets, Reason.UNKNOWN_ERROR, "s"),
    "disown": lambda tickets: moves.disown(tickets, 30_000),
    "look_again": lambda tickets: moves.look_again(tickets, 900_000),
}
receipts = pytest.mark.parametrize("make", RECEIPTS.values(), ids=RECEIPTS)


@receipts
def test_a_receipt_moves_the_row_that_bears_the_ticket_asked_for(rows, make):
    row_id = rows.plant(status="sent", ticketId="t1", sentAt=at(-900))
    assert rows.make(make({row_id: "t1"})) == 1


@receipts
@pytest.mark.parametrize(
    "fields",
    [{"ticketId": "t2"}, {"ticketId": None}, {"status": "pending"}, *({"status": one} for one in ENDED)],
    ids=repr,
)
def test_a_receipt_of_another_ticket_or_state_touches_nothing(rows, make, fields):
    row_id = rows.plant(**{"status": "sent", "ticketId": "t1", **fields})
    assert refuses(rows, row_id, make({row_id: "t1"}))


@receipts
def test_each_row_is_matched_with_its_own_ticket(rows, make):
    right, crossed = rows.plant(status="sent", ticketId="t1"), rows.plant(status="sent", ticketId="t2")
    before = rows.see(crossed)
    assert rows.make(make({right: "t1", crossed: "t1"})) == 1
    assert rows.see(crossed) == before


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("confirm", "success", "confirmed"),
        ("leave_unconfirmed", "success", "unconfirmed"),
        ("receipt_failed", "failed", "unknown_error"),
    ],
)
def test_a_receipt_ends_the_row_with_its_reason(rows, name, status, reason):
    row_id = rows.plant(status="sent", ticketId="t1")
    rows.make(RECEIPTS[name]({row_id: "t1"}))
    row = rows.see(row_id)
    assert (row["status"], row["reason"], row["ticketId"]) == (status, reason, "t1")
    assert at(-5) < row["resolvedAt"] <= at(0.01)


def test_a_disowned_push_goes_back_once(rows):
    row_id = rows.plant(status="sent", ticketId="t1", sentAt=at(-60), attempts=1, enqueuedAt=at(-60))
    assert rows.make(moves.disown({row_id: "t1"}, 30_000)) == 1
    row = rows.see(row_id)
    assert (row["status"], row["ticketId"], row["disownedTicketId"], row["sentAt"]) == ("pending", None, "t1", None)
    assert (row["enqueuedAt"], row["attempts"]) == (None, 1)
    assert at(29) < row["nextAttemptAt"] < at(30.1)

    rows.collection.update_one({"_id": row_id}, {"$set": {"status": "sent", "ticketId": "t2"}})
    assert refuses(rows, row_id, moves.disown({row_id: "t2"}, 30_000))
    assert rows.make(moves.receipt_failed({row_id: "t2"}, Reason.PROVIDER_ERROR, "s")) == 1


def test_an_old_tickets_receipt_cannot_touch_the_row_sent_anew(rows):
    row_id = rows.plant(status="sent", ticketId="t1")
    rows.make(moves.disown({row_id: "t1"}, 0))
    rows.collection.update_one({"_id": row_id}, {"$set": {"status": "sent", "ticketId": "t2"}})
    for make in RECEIPTS.values():
        assert refuses(rows, row_id, make({row_id: "t1"}))


def test_a_disowned_row_that_meets_another_at_its_instant_stays_where_it_is(rows):
    same = {"userId": "u", "notificationTokenId": "t", "scheduledAt": at(-5)}
    row_id = rows.plant(status="sent", ticketId="t1", **same)
    rows.plant(**same)
    assert rows.store.apply_unless_taken(moves.disown({row_id: "t1"}, 0)) is None
    assert rows.see(row_id)["status"] == "sent"


def test_a_receipt_that_is_not_there_is_asked_for_later(rows):
    row_id = rows.plant(status="sent", ticketId="t1", nextAttemptAt=at(-1))
    rows.make(moves.look_again({row_id: "t1"}, 900_000))
    row = rows.see(row_id)
    assert row["status"] == "sent"
    assert at(899) < row["nextAttemptAt"] < at(900.1)
    assert row["enqueuedAt"] is not None


# --- rows of other programs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [{"isDeleted": ...}, {"deviceId": ...}, {"deviceId": None}], ids=repr)
def test_an_incomplete_row_is_completed_once(rows, fields):
    row_id = rows.plant(reminderId=None, **fields)
    whole = {"isDeleted": False, "deviceId": "$title"}
    assert rows.make(moves.adopt(row_id, whole, ["reminderId"])) == 1
    row = rows.see(row_id)
    assert (row["isDeleted"], row["deviceId"]) == (False, "$title")
    assert "reminderId" not in row
    assert refuses(rows, row_id, moves.adopt(row_id, {"title": "again"}, []))


@pytest.mark.parametrize(
    "fields", [{}, {"deviceId": None, "status": "sent"}, {"deviceId": None, "isDeleted": True}], ids=repr
)
def test_a_whole_row_is_nobodys_to_adopt(rows, fields):
    row_id = rows.plant(**fields)
    assert refuses(rows, row_id, moves.adopt(row_id, {"title": "x"}, []))
