"""Ending rows and letting their tokens feel it: in one transaction, exactly once, however often it is repeated."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from consumer.domain.brake import RetireBrake
from consumer.settlement import Settler
from shared.adapters.mongo.messages import MessageStore, Settlement
from shared.domain import moves
from shared.domain.states import DEVICE_FAILURES, REASONS, Reason, Status
from shared.runtime.metrics import Metrics


class Tokens:
    """Tokens as a test plants and sees them."""

    def __init__(self, database):
        self.collection = database["notification_tokens"]

    def plant(self, token_id, **fields):
        now = datetime.now(UTC)
        document = {
            "_id": token_id,
            "userId": f"user-of-{token_id}",
            "deviceId": f"device-of-{token_id}",
            "token": f"ExponentPushToken[{token_id}]",
            "isActive": True,
            "failureCount": 0,
            "createdAt": now - timedelta(days=1),
            "lastSeenAt": now - timedelta(days=1),
            "retiredAt": None,
            "retiredReason": None,
        }
        self.collection.insert_one({**document, **fields})

    def see(self, token_id):
        return self.collection.find_one({"_id": token_id})


@pytest.fixture
def tokens(db):
    return Tokens(db)


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def settler(db, metrics):
    return Settler(MessageStore(db), RetireBrake(0.5, 20), 3, metrics)


def sent(rows, token_id="t", **fields):
    """A sent row of a token; its id and ticket."""
    fields = {"status": "sent", "ticketId": "ticket", "attemptStartedAt": datetime.now(UTC), **fields}
    return {rows.plant(notificationTokenId=token_id, **fields): fields["ticketId"]}


def failed(tickets, reason):
    return partial(moves.receipt_failed, tickets, reason)


def resolved(metrics, status, reason):
    value = metrics.registry.get_sample_value(
        "punktlig_resolved_total", {"category": "meal", "status": status, "reason": reason}
    )
    return value or 0


def test_a_device_failure_ends_the_row_and_counts_against_its_token(rows, tokens, settler, metrics):
    tokens.plant("t")
    tickets = sent(rows)
    settler.settle([failed(tickets, Reason.UNKNOWN_ERROR)], judged=1)
    assert rows.see(*tickets)["status"] == "failed"
    assert tokens.see("t")["failureCount"] == 1
    assert resolved(metrics, "failed", "unknown_error") == 1


def test_repeating_a_settlement_changes_and_counts_nothing(rows, tokens, settler, metrics):
    tokens.plant("t")
    tickets = sent(rows)
    for _ in range(5):
        settler.settle([failed(tickets, Reason.UNKNOWN_ERROR)], judged=1)
    assert tokens.see("t")["failureCount"] == 1
    assert resolved(metrics, "failed", "unknown_error") == 1


def test_eight_pollers_with_the_same_answer_count_each_failure_once(db, rows, tokens, metrics):
    for number in range(5):
        tokens.plant(f"t{number}")
    tickets = {}
    for number in range(10):
        tickets |= sent(rows, f"t{number % 5}", ticketId=f"ticket-{number}")
    start = threading.Barrier(8)

    def poll(_):
        settler = Settler(MessageStore(db), RetireBrake(0.5, 20), 3, metrics)
        start.wait(10)
        settler.settle([failed(tickets, Reason.UNKNOWN_ERROR)], judged=10)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(poll, range(8)))
    assert [tokens.see(f"t{number}")["failureCount"] for number in range(5)] == [2] * 5
    assert all(rows.see(row_id)["status"] == "failed" for row_id in tickets)
    assert resolved(metrics, "failed", "unknown_error") == 10


def test_eight_pollers_of_overlapping_batches_count_each_failure_once(db, rows, tokens, metrics):
    tokens.plant("t")
    tickets = {}
    for number in range(16):
        tickets |= sent(rows, ticketId=f"ticket-{number}")
    pairs = list(tickets.items())
    start = threading.Barrier(8)

    def poll(part):
        settler = Settler(MessageStore(db), RetireBrake(0.5, 20), 99, metrics)
        mine = dict(pairs[part * 2 :] + pairs[: part * 2])
        start.wait(10)
        for row_id, ticket in mine.items():
            settler.settle([failed({row_id: ticket}, Reason.UNKNOWN_ERROR)], judged=1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(poll, range(8)))
    assert tokens.see("t")["failureCount"] == 16
    assert resolved(metrics, "failed", "unknown_error") == 16


def test_a_row_that_others_have_settled_is_not_counted_with_the_rest_of_its_answer(rows, tokens, settler, metrics):
    for name in ("t", "other"):
        tokens.plant(name)
    first, second = sent(rows), sent(rows, "other", ticketId="b")
    settler.settle([failed(first, Reason.UNKNOWN_ERROR)], judged=1)
    settler.settle([failed(first | second, Reason.UNKNOWN_ERROR)], judged=2)
    assert (tokens.see("t")["failureCount"], tokens.see("other")["failureCount"]) == (1, 1)
    assert resolved(metrics, "failed", "unknown_error") == 2


def test_a_transaction_that_fails_half_way_leaves_neither_end_nor_count(db, rows, tokens):
    tokens.plant("t")
    tickets = sent(rows)
    move = moves.receipt_failed(tickets, Reason.UNKNOWN_ERROR, "s")

    def broken(_moved):
        raise RuntimeError("the process dies here")

    with pytest.raises(RuntimeError):
        MessageStore(db).settle([Settlement(move, "s")], broken)
    assert rows.see(*tickets)["status"] == "sent"
    assert tokens.see("t")["failureCount"] == 0


def test_the_third_failure_in_a_row_retires_the_token(rows, tokens, settler):
    tokens.plant("t", failureCount=2)
    settler.settle([failed(sent(rows), Reason.UNKNOWN_ERROR)], judged=1)
    token = tokens.see("t")
    assert (token["failureCount"], token["isActive"], token["retiredReason"]) == (3, False, "repeated_failures")
    assert token["retiredAt"] is not None


def test_several_failures_of_one_token_in_one_answer_all_count(rows, tokens, settler):
    tokens.plant("t")
    tickets = sent(rows) | sent(rows, ticketId="b") | sent(rows, ticketId="c")
    settler.settle([failed(tickets, Reason.RATE_EXCEEDED)], judged=3)
    assert (tokens.see("t")["failureCount"], tokens.see("t")["isActive"]) == (3, False)


@pytest.mark.parametrize("reason", sorted(REASONS[Status.FAILED] - DEVICE_FAILURES - {Reason.DEVICE_NOT_REGISTERED}))
def test_failures_of_anybody_else_never_count_against_a_device(rows, tokens, settler, reason):
    tokens.plant("t", failureCount=2)
    before = tokens.see("t")
    tickets = sent(rows)
    settler.settle([failed(tickets, reason)], judged=1)
    assert rows.see(*tickets)["reason"] == reason.value
    assert tokens.see("t") == before


def test_a_confirmed_receipt_resets_the_count(rows, tokens, settler, metrics):
    tokens.plant("t", failureCount=2)
    settler.settle([partial(moves.confirm, sent(rows))], judged=1)
    assert (tokens.see("t")["failureCount"], tokens.see("t")["isActive"]) == (0, True)
    assert resolved(metrics, "success", "confirmed") == 1


def test_an_unconfirmed_end_neither_counts_nor_resets(rows, tokens):
    tokens.plant("t", failureCount=2)
    before = tokens.see("t")
    assert rows.make(moves.leave_unconfirmed(sent(rows))) == 1
    assert tokens.see("t") == before


def test_a_ticket_error_is_settled_by_the_rows_attempt(rows, tokens, settler):
    tokens.plant("t")
    row_id = rows.plant(notificationTokenId="t", attemptId="a", attemptStartedAt=datetime.now(UTC))
    stale = rows.plant(notificationTokenId="t", attemptId="newer", attemptStartedAt=datetime.now(UTC))
    settler.settle([partial(moves.record_failed, "a", [row_id, stale], Reason.UNKNOWN_ERROR)], judged=2)
    assert (rows.see(row_id)["status"], rows.see(stale)["status"]) == ("failed", "pending")
    assert tokens.see("t")["failureCount"] == 1


def test_an_unregistered_device_is_retired_at_once(rows, tokens, settler, metrics):
    tokens.plant("t")
    tokens.plant("other")
    tickets = sent(rows)
    settler.settle([failed(tickets, Reason.DEVICE_NOT_REGISTERED)], judged=1)
    token = tokens.see("t")
    assert (token["isActive"], token["retiredReason"]) == (False, "device_not_registered")
    assert tokens.see("other")["isActive"]
    assert rows.see(*tickets)["reason"] == "device_not_registered"
    retired = metrics.registry.get_sample_value("punktlig_tokens_retired_total", {"reason": "device_not_registered"})
    assert retired == 1


def test_a_device_that_registered_again_after_the_send_stays(rows, tokens, settler):
    tokens.plant("t", lastSeenAt=datetime.now(UTC))
    tickets = sent(rows, attemptStartedAt=datetime.now(UTC) - timedelta(minutes=15))
    settler.settle([failed(tickets, Reason.DEVICE_NOT_REGISTERED)], judged=1)
    assert tokens.see("t")["isActive"]
    assert rows.see(*tickets)["status"] == "failed"


def test_the_token_that_the_request_carried_is_retired_not_the_devices_new_one(rows, tokens, settler):
    tokens.plant("old", deviceId="d", isActive=False, retiredReason="replaced")
    tokens.plant("new", deviceId="d")
    settler.settle([failed(sent(rows, "old"), Reason.DEVICE_NOT_REGISTERED)], judged=1)
    assert tokens.see("new")["isActive"]
    assert tokens.see("old")["retiredReason"] == "replaced"


@pytest.mark.parametrize("case", [(9, 20, True), (10, 20, False), (19, 19, True)], ids=str)
def test_an_implausible_share_of_dead_devices_is_not_believed(rows, tokens, settler, metrics, case):
    dead, of, retired = case
    tickets = {}
    for number in range(dead):
        tokens.plant(f"t{number}", failureCount=1)
        tickets |= sent(rows, f"t{number}", ticketId=f"ticket-{number}")
    settler.settle([failed(tickets, Reason.DEVICE_NOT_REGISTERED)], judged=of)
    assert all(rows.see(row_id)["status"] == "failed" for row_id in tickets)
    seen = [tokens.see(f"t{number}") for number in range(dead)]
    assert {token["isActive"] for token in seen} == {not retired}
    assert {token["failureCount"] for token in seen} == {1}
    brake = metrics.registry.get_sample_value("punktlig_retire_brake_total")
    assert brake == (0 if retired else 1)


def test_nothing_to_settle_is_no_transaction(db, settler):
    before = db.client.admin.command("serverStatus")["transactions"]["totalStarted"]
    settler.settle([], judged=100)
    assert db.client.admin.command("serverStatus")["transactions"]["totalStarted"] == before


def test_several_endings_of_one_answer_are_one_transaction(rows, tokens, settler):
    for name in ("good", "bad", "dead"):
        tokens.plant(name, failureCount=1)
    good, bad, dead = sent(rows, "good"), sent(rows, "bad"), sent(rows, "dead")
    settler.settle(
        [
            partial(moves.confirm, good),
            failed(bad, Reason.UNKNOWN_ERROR),
            failed(dead, Reason.DEVICE_NOT_REGISTERED),
        ],
        judged=3,
    )
    assert [tokens.see(name)["failureCount"] for name in ("good", "bad", "dead")] == [0, 2, 1]
    assert [tokens.see(name)["isActive"] for name in ("good", "bad", "dead")] == [True, True, False]
    marks = {rows.see(row_id)["settledBy"] for row_id in (*good, *bad, *dead)}
    assert len(marks) == 1


def test_a_device_confirmed_by_the_same_answer_is_not_retired_by_it(rows, tokens, settler):
    tokens.plant("t", failureCount=2)
    settler.settle(
        [partial(moves.confirm, sent(rows)), failed(sent(rows, ticketId="b"), Reason.UNKNOWN_ERROR)], judged=2
    )
    assert tokens.see("t")["isActive"]
