"""Every guard of the moves around a request, on the real server: what a move does, and all that it leaves alone."""

from datetime import timedelta

import pytest

from shared.domain import moves
from shared.domain.moves import Placement
from shared.domain.states import Reason
from tests.integration.row_moves import ENDED, at, refuses

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


def test_a_reopened_row_keeps_its_claim_and_was_not_tried(rows, held):
    row_id = rows.plant(attemptId="a", attempts=1, claim=held())
    rows.make(moves.reopen("a", [row_id]))
    row = rows.see(row_id)
    assert (row["claim"]["owner"], row["attempts"], row["nextAttemptAt"]) == ("me", 0, None)


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
