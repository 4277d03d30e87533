"""What a receipt does to its row, and to no other."""

import pytest

from shared.domain import moves
from shared.domain.states import Reason
from tests.integration.row_moves import ENDED, at, refuses

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
