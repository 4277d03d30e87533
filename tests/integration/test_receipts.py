"""What receipts make of sent rows and of the phones they were for."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from consumer.domain.brake import RetireBrake
from consumer.domain.breaker import Breaker
from consumer.expo.client import ExpoClient
from consumer.expo.payload import ExpoMessage
from consumer.permits import Permits
from consumer.receipts import ReceiptParts, ReceiptRules, ReceiptStage
from consumer.settlement import Settler
from shared.adapters.errors import Unavailable
from shared.adapters.mongo.client import server_now
from shared.adapters.mongo.limiter import Limiter
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.stomp.bell import Bell
from shared.adapters.stomp.publisher import Publisher
from shared.domain.envelope import Frame, Kind
from shared.domain.policy import CategoryPolicy
from shared.runtime.clock import ServerClock
from shared.runtime.lifecycle import Shutdown
from shared.runtime.metrics import Metrics

DELAY, GIVE_UP, GRACE = timedelta(minutes=15), timedelta(days=1), timedelta(minutes=30)


@pytest.fixture
def build(db, expo, brokers, credentials):
    """Builds receipts stages, as each process has its own."""
    publishers = []

    def stage():
        metrics, store = Metrics(), MessageStore(db)
        publishers.append(Publisher(brokers, credentials))
        parts = ReceiptParts(
            store=store,
            settler=Settler(store, RetireBrake(0.5, 20), 3, metrics),
            expo=ExpoClient(expo.url, 3.0),
            permits=Permits(Limiter(db, 600, 6, 60), 6, Shutdown(), metrics),
            breaker=Breaker(),
            bell=Bell(publishers[-1], timedelta(hours=2)),
            clock=ServerClock(lambda: server_now(db), Unavailable),
            metrics=metrics,
        )
        return ReceiptStage(parts, ReceiptRules(100, DELAY, GIVE_UP, {"meal": CategoryPolicy(GRACE)}))

    yield stage
    for one in publishers:
        one.close()


@pytest.fixture
def stage(build):
    return build()


@pytest.fixture
def sent(db, rows, expo):
    """Pushes to some phones through Expo, under the given orders, and plants the sent rows; their ids."""

    def push(count=1, orders=(), **fields):
        expo.faults(list(orders))
        tokens = [f"ExponentPushToken[{number}]" for number in range(count)]
        outcomes = ExpoClient(expo.url, 5.0).send(
            [ExpoMessage(one, {"to": one, "data": {"messageId": one}}) for one in tokens]
        )
        expo.faults([])
        now, ids = datetime.now(UTC), []
        for number, (token, outcome) in enumerate(zip(tokens, outcomes.outcomes, strict=True)):
            phone = {"userId": f"u{number}", "deviceId": f"d{number}", "token": token, "isActive": True}
            db["notification_tokens"].update_one(
                {"_id": f"t{number}"}, {"$setOnInsert": {**phone, "failureCount": 2}}, upsert=True
            )
            row = {
                "status": "sent",
                "ticketId": outcome.ticket_id,
                "notificationTokenId": f"t{number}",
                "sentAt": now - timedelta(minutes=15),
                "attemptStartedAt": now - timedelta(minutes=15),
                "attempts": 1,
            }
            ids.append(rows.plant(**{**row, **fields}))
        return ids

    return push


def frame(ids):
    return Frame(Kind.RECEIPTS, "meal", datetime.now(UTC), tuple(ids))


def error(name, **limits):
    return {"fault": "receipt_error", "error": name, **limits}


def phone(db, number=0):
    return db["notification_tokens"].find_one({"_id": f"t{number}"})


def test_what_was_taken_is_confirmed_and_the_phone_is_well(stage, db, rows, sent):
    ids = sent(3)
    stage.handle(frame(ids))
    assert {(rows.see(one)["status"], rows.see(one)["reason"]) for one in ids} == {("success", "confirmed")}
    assert {phone(db, number)["failureCount"] for number in range(3)} == {0}


def test_a_receipt_that_is_not_there_is_asked_for_after_as_long_again(stage, db, rows, sent):
    missing = [{"fault": "receipt_missing"}]
    (soon,) = sent(1, missing)
    (later,) = sent(1, missing, sentAt=datetime.now(UTC) - timedelta(hours=1))
    before = phone(db)
    stage.handle(frame([soon, later]))
    for row_id, minutes in ((soon, 15), (later, 60)):
        row = rows.see(row_id)
        assert row["status"] == "sent"
        assert (row["nextAttemptAt"] - datetime.now(UTC)) / timedelta(minutes=1) == pytest.approx(minutes, abs=0.2)
    assert phone(db) == before


def test_what_nobody_disowned_within_a_day_stays_unconfirmed(stage, db, rows, sent):
    (row_id,) = sent(1, [{"fault": "receipt_missing"}], sentAt=datetime.now(UTC) - GIVE_UP - timedelta(minutes=1))
    before = phone(db)
    stage.handle(frame([row_id]))
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("success", "unconfirmed")
    assert phone(db) == before


FAILED = {
    "DeviceNotRegistered": ("device_not_registered", 2, False),
    "MessageTooBig": ("message_too_big", 2, True),
    "InvalidCredentials": ("credentials", 2, True),
    "MismatchSenderId": ("credentials", 2, True),
    "DeveloperError": ("invalid_payload", 2, True),
    "SomethingNew": ("unknown_error", 3, False),
}


@pytest.mark.parametrize("name", FAILED)
def test_an_error_ends_the_row_and_the_phone_feels_only_what_is_its_own(stage, db, rows, sent, name):
    reason, failures, active = FAILED[name]
    (row_id,) = sent(1, [error(name)])
    stage.handle(frame([row_id]))
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("failed", reason)
    assert (phone(db)["failureCount"], phone(db)["isActive"]) == (failures, active)


PASSING = {
    "ProviderError": ("provider_error", 2),
    "ExpoError": ("provider_error", 2),
    "MessageRateExceeded": ("rate_exceeded", 3),
}


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_error_within_grace_is_sent_again_once(stage, db, rows, sent, name):
    reason, failures = PASSING[name]
    (row_id,) = sent(1, [error(name)])
    ticket = rows.see(row_id)["ticketId"]
    stage.handle(frame([row_id]))
    row = rows.see(row_id)
    assert (row["status"], row["disownedTicketId"], row["ticketId"]) == ("pending", ticket, None)
    assert (row["nextAttemptAt"] - datetime.now(UTC)).total_seconds() == pytest.approx(30, abs=2)
    assert phone(db)["failureCount"] == 2

    again = {"status": "sent", "ticketId": ticket, "sentAt": datetime.now(UTC), "nextAttemptAt": datetime.now(UTC)}
    rows.collection.update_one({"_id": row_id}, {"$set": again})
    stage.handle(frame([row_id]))
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("failed", reason)
    assert phone(db)["failureCount"] == failures


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_error_after_the_grace_ends_the_row(stage, rows, sent, name):
    (row_id,) = sent(1, [error(name)], scheduledAt=datetime.now(UTC) - GRACE - timedelta(seconds=1))
    stage.handle(frame([row_id]))
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("failed", PASSING[name][0])


@pytest.mark.parametrize("fault", ["server_error_before", "close_after", "not_json", "null_body", "rate_limited"])
def test_while_expo_does_not_answer_nothing_is_decided(stage, db, rows, sent, expo, fault):
    ids = sent(2)
    before = [rows.see(one) for one in ids]
    expo.faults([{"fault": fault, "on": "receipts"}])
    stage.handle(frame(ids))
    assert [rows.see(one) for one in ids] == before
    assert phone(db)["failureCount"] == 2


@pytest.mark.parametrize(("dead", "retired"), [(9, True), (10, False)])
def test_a_mass_of_dead_phones_is_not_believed(stage, db, rows, sent, dead, retired):
    ids = sent(20, [error("DeviceNotRegistered", tokens=[f"ExponentPushToken[{one}]" for one in range(dead)])])
    stage.handle(frame(ids))
    assert [rows.see(one)["reason"] for one in ids] == ["device_not_registered"] * dead + ["confirmed"] * (20 - dead)
    assert {phone(db, number)["isActive"] for number in range(dead)} == {not retired}
    assert all(phone(db, number)["isActive"] for number in range(dead, 20))


def test_a_phone_that_came_back_since_the_send_stays(stage, db, rows, sent):
    (row_id,) = sent(1, [error("DeviceNotRegistered")])
    db["notification_tokens"].update_one({}, {"$set": {"lastSeenAt": datetime.now(UTC)}})
    stage.handle(frame([row_id]))
    assert rows.see(row_id)["status"] == "failed"
    assert phone(db)["isActive"]


def test_rows_that_have_moved_on_are_not_asked_for(stage, rows, sent, expo):
    ids = sent(2)
    rows.collection.update_many({"_id": {"$in": ids}}, {"$set": {"status": "failed", "reason": "unknown_error"}})
    expo.reset()
    stage.handle(frame([*ids, "never-heard-of"]))
    assert expo.requests() == []


def test_four_pollers_of_one_frame_count_each_failure_once(build, db, rows, sent):
    ids = sent(5, [error("SomethingNew")])
    db["notification_tokens"].update_many({}, {"$set": {"failureCount": 0}})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda one: one.handle(frame(ids)), [build() for _ in range(4)]))
    assert {rows.see(one)["reason"] for one in ids} == {"unknown_error"}
    assert {phone(db, number)["failureCount"] for number in range(5)} == {1}
