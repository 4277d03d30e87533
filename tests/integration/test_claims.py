"""Taking rows and announcing requests: who may, decided by the server at the moment of the write."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.mongo.messages import MessageStore
from shared.domain import moves
from shared.domain.moves import Move

LEASE_MS = 60_000
NEED_MS = 35_000


def at(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


CLAIMABLE = {
    "due and free": dict,
    "claim missing": lambda: {"claim": ...},
    "claim is null": lambda: {"claim": None},
    "claim is empty": lambda: {"claim": {}},
    "claim without an end": lambda: {"claim": {"owner": "x"}},
    "claim with a null end": lambda: {"claim": {"owner": "x", "expiresAt": None}},
    "claim has expired": lambda: {"claim": {"owner": "x", "expiresAt": at(-0.05)}},
    "back-off is over": lambda: {"nextAttemptAt": at(-0.05)},
    "bookkeeping missing": lambda: {"nextAttemptAt": ..., "attempts": ..., "unresolvedAttempts": ..., "attemptId": ...},
    "an abandoned attempt": lambda: {"attemptId": "a", "claim": {"owner": "x", "expiresAt": at(-1)}},
}
NOT_CLAIMABLE = {
    "not due": lambda: {"scheduledAt": at(5)},
    "in back-off": lambda: {"nextAttemptAt": at(5)},
    "held": lambda: {"claim": {"owner": "x", "expiresAt": at(5)}},
    "soft-deleted": lambda: {"isDeleted": True},
    "not made whole": lambda: {"isDeleted": ...},
    "sent": lambda: {"status": "sent"},
    "success": lambda: {"status": "success"},
    "failed": lambda: {"status": "failed"},
    "missed": lambda: {"status": "is_missed"},
}


@pytest.mark.parametrize("name", CLAIMABLE)
def test_a_due_row_that_nobody_holds_is_taken(rows, name):
    row_id = rows.plant(**CLAIMABLE[name]())
    claim = rows.store.claim([row_id], LEASE_MS)
    assert [row["_id"] for row in claim.rows] == [row_id]
    assert rows.see(row_id)["claim"]["owner"] == claim.owner


@pytest.mark.parametrize("name", NOT_CLAIMABLE)
def test_any_other_row_is_left_as_it_is(rows, name):
    row_id = rows.plant(**NOT_CLAIMABLE[name]())
    before = rows.see(row_id)
    assert rows.store.claim([row_id], LEASE_MS).rows == []
    assert rows.see(row_id) == before


def test_a_row_that_is_held_for_a_moment_can_be_taken_when_the_lease_is_over(rows):
    row_id = rows.plant()
    first = rows.store.claim([row_id], 300)
    assert first.rows
    deadline = at(5)
    while not (second := rows.store.claim([row_id], LEASE_MS)).rows:
        assert datetime.now(UTC) < deadline
    assert datetime.now(UTC) >= first.taken_at + timedelta(milliseconds=300)
    assert rows.make(moves.release([row_id], first.owner)) == 0
    assert rows.see(row_id)["claim"]["owner"] == second.owner


def test_every_claim_has_an_owner_of_its_own(rows):
    ids = rows.plant_many(4)
    owners = [rows.store.claim([row_id], LEASE_MS).owner for row_id in ids]
    assert len(set(owners)) == 4


def test_a_claim_says_when_it_was_taken_on_the_servers_clock(rows):
    row_id = rows.plant()
    before = at(-0.01)
    claim = rows.store.claim([row_id], LEASE_MS)
    assert before <= claim.taken_at <= at(0.01)
    assert rows.see(row_id)["claim"]["expiresAt"] == claim.taken_at + timedelta(milliseconds=LEASE_MS)


@pytest.mark.parametrize("shift", [timedelta(hours=-3), timedelta(hours=3)])
def test_the_workers_own_clock_decides_nothing(rows, shift):
    due, early = rows.plant(), rows.plant(scheduledAt=at(60))
    expired = rows.plant(claim={"owner": "x", "expiresAt": at(-1)})
    live = rows.plant(claim={"owner": "x", "expiresAt": at(60)})
    with time_machine.travel(datetime.now(UTC) + shift, tick=True):
        taken = rows.store.claim([due, early, expired, live], LEASE_MS)
    assert {row["_id"] for row in taken.rows} == {due, expired}


def test_four_workers_after_the_same_hundred_rows_share_them_without_overlap(db, rows):
    ids = rows.plant_many(100)
    start = threading.Barrier(4)

    def take(part):
        store = MessageStore(db)
        start.wait(10)
        mixed = ids[part * 25 :] + ids[: part * 25]
        return [store.claim(mixed[batch : batch + 20], LEASE_MS) for batch in range(0, 100, 20)]

    with ThreadPoolExecutor(4) as pool:
        claims = [claim for found in pool.map(take, range(4)) for claim in found]
    taken = [row["_id"] for claim in claims for row in claim.rows]
    assert sorted(taken) == sorted(ids)
    for claim in claims:
        assert all(rows.see(row["_id"])["claim"]["owner"] == claim.owner for row in claim.rows)


class AnswersGetLost(MessageStore):
    """The write reaches the server, its answer does not come back."""

    def apply(self, move: Move) -> int:
        super().apply(move)
        raise DatabaseUnavailable("answer lost")


def test_what_bears_my_owner_is_mine_also_when_the_claims_answer_was_lost(db, rows):
    ids = rows.plant_many(3)
    claim = AnswersGetLost(db).claim(ids, LEASE_MS)
    assert {row["_id"] for row in claim.rows} == set(ids)
    assert all(rows.see(row_id)["claim"]["owner"] == claim.owner for row_id in ids)


def test_a_lost_answer_to_a_claim_of_nothing_is_still_a_failure(db, rows):
    row_id = rows.plant(scheduledAt=at(60))
    with pytest.raises(DatabaseUnavailable):
        AnswersGetLost(db).claim([row_id], LEASE_MS)


# --- mark ---------------------------------------------------------------------------------------------------


def mark(rows, ids, *, owner="me", attempt="new", need_ms=NEED_MS, max_unresolved=1):
    return rows.store.mark(
        moves.mark(ids, owner, attempt, need_ms=need_ms, max_unresolved=max_unresolved), ids, attempt
    )


def test_a_mark_announces_one_request(rows, held):
    row_id = rows.plant(claim=held(), attempts=2)
    before = at(-0.01)
    assert mark(rows, [row_id]) == {row_id}
    row = rows.see(row_id)
    assert (row["attemptId"], row["attempts"], row["unresolvedAttempts"]) == ("new", 3, 0)
    assert before <= row["attemptStartedAt"] <= at(0.01)
    assert (row["status"], row["claim"]["owner"]) == ("pending", "me")


@pytest.mark.parametrize(("left", "marked"), [(36.0, True), (34.5, False), (0.5, False), (-1.0, False)])
def test_the_lease_must_cover_the_whole_request(rows, held, left, marked):
    row_id = rows.plant(claim=held(seconds=left))
    assert mark(rows, [row_id]) == ({row_id} if marked else set())
    assert (rows.see(row_id)["attemptId"] == "new") is marked


def test_only_the_owner_may_announce_a_request(rows, held):
    ids = [rows.plant(claim=held("another")), rows.plant(claim=None), rows.plant(claim=...)]
    assert mark(rows, ids) == set()
    assert all(rows.see(row_id)["attempts"] == 0 for row_id in ids)


@pytest.mark.parametrize("fields", [{"isDeleted": True}, {"status": "sent"}, {"status": "is_missed"}])
def test_a_row_that_ended_or_was_deleted_meanwhile_is_not_sent(rows, held, fields):
    row_id = rows.plant(claim=held(), **fields)
    assert mark(rows, [row_id]) == set()


def test_a_mark_names_the_rows_that_it_got(rows, held):
    good, short, lost = rows.plant(claim=held()), rows.plant(claim=held(seconds=10)), rows.plant(claim=held("x"))
    assert mark(rows, [good, short, lost]) == {good}


@pytest.mark.parametrize(
    ("fields", "max_unresolved", "becomes"),
    [
        ({}, 0, 0),
        ({"unresolvedAttempts": 1}, 0, None),
        ({"unresolvedAttempts": 1}, 1, 1),
        ({"unresolvedAttempts": 2}, 1, None),
        ({"attemptId": "old"}, 0, None),
        ({"attemptId": "old"}, 1, 1),
        ({"attemptId": "old", "unresolvedAttempts": 1}, 1, None),
        ({"attemptId": "old", "unresolvedAttempts": ...}, 1, 1),
        ({"attemptId": ..., "unresolvedAttempts": ..., "attempts": ...}, 0, 0),
    ],
)
def test_a_mark_counts_what_is_unresolved_and_stops_at_what_policy_allows(rows, held, fields, max_unresolved, becomes):
    row_id = rows.plant(claim=held(), **fields)
    before = rows.see(row_id)
    marked = mark(rows, [row_id], max_unresolved=max_unresolved)
    if becomes is None:
        assert marked == set()
        assert rows.see(row_id) == before
    else:
        assert marked == {row_id}
        assert rows.see(row_id)["unresolvedAttempts"] == becomes


def test_a_new_mark_ends_the_authority_of_the_old_attempt(rows, held):
    row_id = rows.plant(claim=held())
    mark(rows, [row_id], attempt="first")
    mark(rows, [row_id], attempt="second")
    assert rows.make(moves.record_sent("first", {row_id: "ticket-1"}, 1000)) == 0
    assert rows.make(moves.record_sent("second", {row_id: "ticket-2"}, 1000)) == 1
    row = rows.see(row_id)
    assert (row["ticketId"], row["unresolvedAttempts"], row["attempts"]) == ("ticket-2", 1, 2)
