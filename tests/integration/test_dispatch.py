"""Judge, mark, post, record: what each answer of Expo makes of the rows of a request, and when none is made at all."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from consumer.dispatch import STALE_SECONDS, Dispatcher, DispatchParts, DispatchRules, Held
from consumer.domain.brake import RetireBrake
from consumer.domain.breaker import Breaker
from consumer.expo.client import ExpoClient
from consumer.judge import Judge
from consumer.permits import Permits
from consumer.recording import Recorder, RecordRules
from consumer.settlement import Settler
from deploy.local.ports import free_port
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.limiter import Limiter
from shared.adapters.mongo.messages import MessageStore
from shared.adapters.mongo.relocation import Relocator
from shared.domain.decision import Rules
from shared.domain.policy import CategoryPolicy
from shared.runtime.clock import boottime
from shared.runtime.lifecycle import Shutdown
from shared.runtime.metrics import Metrics

LEASE, REQUEST, MAX_ATTEMPTS = 60.0, 3.0, 3
PAUSE, RECEIPT_DELAY = timedelta(seconds=30), timedelta(minutes=15)
POLICIES = {
    "meal": CategoryPolicy(timedelta(minutes=30)),
    "safety": CategoryPolicy(timedelta(minutes=30), on_unknown="give_up"),
}
RULES = {name: Rules(policy, MAX_ATTEMPTS, PAUSE) for name, policy in POLICIES.items()}


class Worker:
    """The part of a consumer between a frame and its acknowledgement."""

    def __init__(self, db, url):
        self.db, self.metrics, self.breaker = db, Metrics(), Breaker()
        self.store, self.limiter = MessageStore(db), Limiter(db, 600, 6, 60)
        settler = Settler(self.store, RetireBrake(0.5, 20), 3, self.metrics)
        rules = RecordRules(MAX_ATTEMPTS, RECEIPT_DELAY, PAUSE)
        recorder = Recorder(self.store, settler, self.limiter, self.breaker, rules, self.metrics)
        self.judge = Judge(self.store, Audience(db), Relocator(db, RULES), RULES, self.metrics)
        permits = Permits(self.limiter, 6, Shutdown(), self.metrics)
        expo = ExpoClient(url, REQUEST)
        parts = DispatchParts(self.store, expo, permits, recorder, self.judge, Shutdown(), self.metrics)
        self.dispatcher = Dispatcher(parts, DispatchRules(LEASE, REQUEST, POLICIES))

    def take(self, ids, lease=LEASE):
        """Claim and judge; what is to be sent, and the claim."""
        asked_at = boottime()
        claim = self.store.claim(ids, int(lease * 1000))
        return self.judge.judge(claim).outgoing, Held(claim, asked_at, boottime())

    def send(self, ids):
        outgoing, held = self.take(ids)
        return self.dispatcher.dispatch(outgoing, held)


@pytest.fixture
def worker(db, expo):
    return Worker(db, expo.url)


@pytest.fixture
def phones(db, rows):
    """Plants people with one phone each and a due row on it; the rows' ids."""

    def plant(count=3, **fields):
        ids = []
        for number in range(count):
            name = f"{fields.get('project', '')}{number}"
            token = f"ExponentPushToken[{name}{fields.get('at', '')}]"
            db["users"].insert_one({"_id": f"u{name}", "timezone": "UTC"})
            db["notification_tokens"].insert_one(
                {
                    "_id": f"t{name}",
                    "userId": f"u{name}",
                    "deviceId": f"d{name}",
                    "token": token,
                    "isActive": True,
                    "failureCount": 0,
                    "project": fields.get("project"),
                }
            )
            row = {name: value for name, value in fields.items() if name not in ("project", "at")}
            whose = {"userId": f"u{name}", "deviceId": f"d{name}", "notificationTokenId": f"t{name}"}
            ids.append(rows.plant(reminderId=..., **whose, **row))
        return ids

    return plant


def wait_of(row):
    return (row["nextAttemptAt"] - datetime.now(UTC)).total_seconds()


def test_accepted_rows_are_sent_and_their_receipts_remembered(worker, rows, phones, expo):
    ids = phones()
    aftermath = worker.send(ids)
    assert sorted(aftermath.sent) == sorted(ids)
    assert aftermath.again == []
    tickets = {entry["messageId"]: entry["ticketId"] for entry in expo.ledger()}
    for row_id in ids:
        row = rows.see(row_id)
        assert (row["status"], row["ticketId"], row["attempts"]) == ("sent", tickets[row_id], 1)
        assert (row["attemptId"], row["claim"], row["unresolvedAttempts"]) == (None, None, 0)
        assert wait_of(row) == pytest.approx(900, abs=5)
    assert len(expo.requests()) == 1


# fault: (attempts, unresolved, shortest and longest wait in seconds, breaker after one of it)
STILL_PENDING = {
    "rate_limited": ({"fault": "rate_limited"}, 1, 0, (1.5, 4.1)),
    "server_error_before": ({"fault": "server_error_before"}, 1, 1, (29, 30.1)),
    "server_error_after": ({"fault": "server_error_after"}, 1, 1, (29, 30.1)),
    "close_after": ({"fault": "close_after"}, 1, 1, (29, 30.1)),
    "null_body": ({"fault": "null_body"}, 1, 1, (29, 30.1)),
    "missing_ticket_id": ({"fault": "missing_ticket_id"}, 1, 1, (29, 30.1)),
    "unauthorized": ({"fault": "unauthorized"}, 0, 0, (29, 30.1)),
    "rate exceeded for the device": (
        {"fault": "ticket_error", "error": "MessageRateExceeded"},
        1,
        0,
        (1.5, 4.1),
    ),
}


@pytest.mark.parametrize("name", STILL_PENDING)
def test_what_may_be_tried_again_waits_and_is_counted_rightly(worker, rows, phones, expo, name):
    order, attempts, unresolved, (shortest, longest) = STILL_PENDING[name]
    expo.faults([order])
    ids = phones()
    aftermath = worker.send(ids)
    assert sorted(row_id for row_id, _ in aftermath.again) == sorted(ids)
    for row_id in ids:
        row = rows.see(row_id)
        assert (row["status"], row["attempts"], row["unresolvedAttempts"]) == ("pending", attempts, unresolved)
        assert (row["attemptId"], row["claim"]) == (None, None)
        assert shortest <= wait_of(row) <= longest
    assert len(expo.requests()) == 1


def test_what_never_left_is_no_unknown(db, rows, phones):
    worker = Worker(db, f"http://127.0.0.1:{free_port()}")
    ids = phones()
    worker.send(ids)
    assert {(rows.see(one)["attempts"], rows.see(one)["unresolvedAttempts"]) for one in ids} == {(1, 0)}


ENDED = {
    "MessageTooBig": "message_too_big",
    "InvalidCredentials": "credentials",
    "DeviceNotRegistered": "device_not_registered",
    "SomethingNew": "unknown_error",
}


@pytest.mark.parametrize("error", ENDED)
def test_a_refused_row_ends_and_its_neighbours_are_sent(worker, db, rows, phones, expo, error):
    expo.faults([{"fault": "ticket_error", "error": error, "tokens": ["ExponentPushToken[1]"]}])
    first, second, third = phones()
    worker.send([first, second, third])
    assert [rows.see(one)["status"] for one in (first, second, third)] == ["sent", "failed", "sent"]
    assert rows.see(second)["reason"] == ENDED[error]
    token = db["notification_tokens"].find_one({"_id": "t1"})
    assert token["isActive"] is (error != "DeviceNotRegistered")
    assert token["failureCount"] == (1 if error == "SomethingNew" else 0)


SPENT = {
    "haste": ({"fault": "rate_limited"}, "retries_exhausted", 0),
    "haste for the device": ({"fault": "ticket_error", "error": "MessageRateExceeded"}, "rate_exceeded", 1),
    "trouble behind Expo": ({"fault": "ticket_error", "error": "ProviderError"}, "provider_error", 0),
}


@pytest.mark.parametrize("name", SPENT)
def test_the_last_of_the_attempts_ends_the_row(worker, rows, phones, expo, name):
    order, reason, failures = SPENT[name]
    expo.faults([order])
    (row_id,) = phones(1, attempts=MAX_ATTEMPTS - 1)
    worker.send([row_id])
    row = rows.see(row_id)
    assert (row["status"], row["reason"], row["attempts"]) == ("failed", reason, MAX_ATTEMPTS)
    assert worker.db["notification_tokens"].find_one()["failureCount"] == failures


def test_unknown_outcomes_do_not_use_up_the_attempts(worker, rows, phones, expo):
    expo.faults([{"fault": "rate_limited"}])
    (row_id,) = phones(1, attempts=MAX_ATTEMPTS - 1, unresolvedAttempts=1)
    worker.send([row_id])
    assert rows.see(row_id)["status"] == "pending"


# --- refused whole --------------------------------------------------------------------------------------------


def test_one_invalid_message_ends_and_the_others_go_in_a_new_attempt(worker, rows, phones, expo):
    expo.faults([{"fault": "validation_error", "index": 1, "times": 1}])
    ids = phones()
    worker.send(ids)
    statuses = sorted((rows.see(one)["status"], rows.see(one)["reason"], rows.see(one)["attempts"]) for one in ids)
    assert statuses == [("failed", "invalid_payload", 1), ("sent", None, 1), ("sent", None, 1)]
    assert [request["recipients"] for request in expo.requests()] == [3, 2]
    assert {rows.see(one)["unresolvedAttempts"] for one in ids} == {0}


def test_projects_that_expo_tells_apart_are_sent_apart(worker, rows, phones, expo):
    ids = phones(2, at="@garden")
    (other,) = phones(1, project="x", at="@kitchen")
    worker.db["notification_tokens"].update_many({}, {"$unset": {"project": 1}})
    worker.send([*ids, other])
    assert {rows.see(one)["status"] for one in [*ids, other]} == {"sent"}
    assert [request["status"] for request in expo.requests()] == [400, 200, 200]


def test_projects_that_are_known_are_never_mixed(worker, rows, phones, expo):
    ids = [*phones(2, project="a", at="@garden"), *phones(2, project="b", at="@kitchen")]
    worker.send(ids)
    assert {rows.see(one)["status"] for one in ids} == {"sent"}
    assert [(request["status"], request["recipients"]) for request in expo.requests()] == [(200, 2), (200, 2)]


# --- no request -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_ago", "judged_ago"), [(LEASE, 0.0), (LEASE - REQUEST - 5 + 0.1, 0.0), (0.0, STALE_SECONDS + 0.1)]
)
def test_a_worker_that_stood_still_makes_no_request(worker, rows, phones, expo, asked_ago, judged_ago):
    ids = phones()
    outgoing, held = worker.take(ids)
    stale = replace(held, asked_at=held.asked_at - asked_ago, judged_at=held.judged_at - judged_ago)
    aftermath = worker.dispatcher.dispatch(outgoing, stale)
    assert expo.requests() == []
    assert sorted(row_id for row_id, _ in aftermath.again) == sorted(ids)
    for row_id in ids:
        row = rows.see(row_id)
        assert (row["attempts"], row["unresolvedAttempts"], row["attemptId"], row["claim"]) == (0, 0, None, None)
    assert worker.send(ids).sent


def test_rows_that_were_lost_meanwhile_are_left_out_of_the_request(worker, rows, phones, expo, held):
    first, second, third = phones()
    outgoing, mine = worker.take([first, second, third])
    rows.collection.update_one({"_id": second}, {"$set": {"claim": held("another")}})
    worker.dispatcher.dispatch(outgoing, mine)
    assert [rows.see(one)["status"] for one in (first, second, third)] == ["sent", "pending", "sent"]
    assert rows.see(second)["claim"]["owner"] == "another"
    assert [request["recipients"] for request in expo.requests()] == [2]
    assert worker.metrics.registry.get_sample_value("punktlig_claims_lost_total") == 1


def test_a_lease_that_does_not_cover_the_request_starts_none(worker, rows, phones, expo):
    ids = phones()
    outgoing, held = worker.take(ids, lease=REQUEST + 4.9)
    worker.dispatcher.dispatch(outgoing, held)
    assert expo.requests() == []
    assert {rows.see(one)["claim"] is None for one in ids} == {True}
    assert {rows.see(one)["attempts"] for one in ids} == {0}


def test_a_payload_that_nothing_holds_ends_without_a_request(worker, rows, phones, expo):
    (row_id,) = phones(1, data={"x": "y" * 5000})
    worker.send([row_id])
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("failed", "message_too_big")
    assert expo.requests() == []


@pytest.mark.parametrize("case", [("meal", 1, True), ("meal", 2, False), ("safety", 0, True), ("safety", 1, False)])
def test_the_policy_bounds_what_is_sent_again(worker, rows, phones, expo, case):
    category, unresolved, sent = case
    (row_id,) = phones(1, category=category, unresolvedAttempts=unresolved, attempts=unresolved)
    worker.send([row_id])
    row = rows.see(row_id)
    assert (row["status"], row["reason"]) == (("sent", None) if sent else ("failed", "outcome_unknown"))
    assert len(expo.requests()) == int(sent)


def test_a_request_waits_for_its_turn_in_the_rolling_second(worker, phones, expo):
    assert worker.limiter.take_turn(550) == 0
    started = boottime()
    worker.send(phones(60))
    assert boottime() - started >= 0.9, "600 recipients within a second were exceeded"
    assert len(expo.ledger()) == 60


def test_an_opt_out_between_claim_and_judgement_is_heard(worker, db, rows, phones, expo):
    (row_id,) = phones(1)
    db["users"].update_one({"_id": "u0"}, {"$set": {"preferences": {"enabled": False}}})
    worker.send([row_id])
    assert (rows.see(row_id)["status"], rows.see(row_id)["reason"]) == ("is_missed", "opted_out")
    assert expo.requests() == []


# --- the breaker ------------------------------------------------------------------------------------------------


def test_three_unknown_answers_in_a_row_open_the_breaker_and_an_answer_closes_it(worker, phones, expo):
    expo.faults([{"fault": "server_error_before"}])
    ids = phones(4)
    for row_id in ids[:2]:
        worker.send([row_id])
    assert worker.breaker.state == "closed"
    worker.send([ids[2]])
    assert worker.breaker.state == "open"
    expo.faults([])
    worker.send([ids[3]])
    assert worker.breaker.state == "closed"


def test_refused_credentials_open_it_at_once_and_too_much_haste_does_not(worker, phones, expo):
    ids = phones(4)
    expo.faults([{"fault": "rate_limited"}])
    for row_id in ids[:3]:
        worker.send([row_id])
    assert worker.breaker.state == "closed"
    assert worker.limiter.acquire("a", 1).wait_seconds > 0.5
    expo.faults([{"fault": "forbidden"}])
    worker.send([ids[3]])
    assert worker.breaker.state == "open"
    assert "403" in worker.breaker.reason
