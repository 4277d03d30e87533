"""What goes wrong beside the work must not cost the work: the real parts as their processes put them together."""

import contextlib
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from bson import Timestamp
from bson.datetime_ms import DatetimeMS

from consumer.intake import Intake, IntakeParts
from consumer.recording import Recorder
from consumer.wiring import build_receipts, build_send
from creator.plan import PlanOptions
from creator.wiring import build_planner, build_relay, build_sweeper
from shared.adapters.errors import BrokerRefused, BrokerUnavailable, DatabaseUnavailable
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.stomp.bell import Bell
from shared.adapters.stomp.connection import OutgoingMessage
from shared.adapters.stomp.publisher import Publisher
from shared.adapters.stomp.subscriber import Subscriber
from shared.domain.envelope import Frame, Kind, encode
from shared.process import Process
from shared.runtime.lifecycle import Shutdown
from shared.runtime.metrics import Metrics
from shared.runtime.settings import Settings

PATIENCE = 15.0
HOUR = timedelta(hours=1)
REFUSAL = b"ERROR\nmessage:User name [punktlig] or password is invalid.\n\n\0"


def await_that(holds, what):
    """Look until it holds; the servers under test have no signal for what is asked here."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, what
        threading.Event().wait(0.02)


def now():
    return datetime.now(UTC)


@pytest.fixture
def category():
    """A category, and so a queue, of the test's own."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def process(db, stack, credentials, category, expo, monkeypatch):
    """A process of the product, but for its clocks' wish to own the interpreter."""
    monkeypatch.setattr("shared.process._relax_garbage_collection", lambda: None)
    settings = Settings(
        mongo_url=stack.mongod.url,
        mongo_db=db.name,
        stomp_urls=stack.broker.url,
        stomp_login=credentials.login,
        stomp_passcode=credentials.passcode,
        expo_url=expo.url,
        expo_rate_per_second=20_000,
        categories=category,
        receipt_delay_seconds=3600,
    )
    made = Process("tests", settings)
    yield made
    made.close()


@pytest.fixture
def send(process, category):
    """The send stage: handles a frame of the given rows on the test's own thread."""
    shutdown = Shutdown(drain_seconds=0)
    service = build_send(process, shutdown, [category])

    def handle(*ids):
        service.intake._parts.handle(Frame(Kind.SEND, category, now() - timedelta(seconds=1), tuple(ids)))

    handle.complaints, handle.shutdown = service.complaints, shutdown
    return handle


@pytest.fixture
def phones(db, rows, category):
    """Plants people with one phone each and a due row on it; the rows' ids."""

    def plant(count, first=0, **fields):
        ids = []
        for number in range(first, first + count):
            whose = {"userId": f"u{number}", "deviceId": f"d{number}", "notificationTokenId": f"t{number}"}
            db["users"].insert_one({"_id": f"u{number}", "timezone": "UTC"})
            phone = {"userId": f"u{number}", "deviceId": f"d{number}", "token": f"ExponentPushToken[{number}]"}
            db["notification_tokens"].insert_one({"_id": f"t{number}", **phone, "isActive": True, "failureCount": 0})
            ids.append(rows.plant(**{"reminderId": ..., "category": category, **whose, **fields}))
        return ids

    return plant


# --- an answer that is known --------------------------------------------------------------------------------------


class Unwritten:
    """An outcome is `answered`, and written down only when the database is `dead`.

    `felt` once that could not be done; nobody draws a conclusion from it before `go_on`.
    """

    def __init__(self):
        self.answered, self.dead = threading.Event(), threading.Event()
        self.felt, self.go_on = threading.Event(), threading.Event()


@pytest.fixture
def unwritten(monkeypatch):
    monkeypatch.setattr("shared.adapters.mongo.client.WRITE_TIMEOUT_SECONDS", 0.5)  # else it is felt after 15 s
    made, record = Unwritten(), Recorder.record

    def spy(self, *arguments):
        made.answered.set()
        assert made.dead.wait(PATIENCE)
        try:
            return record(self, *arguments)
        except DatabaseUnavailable:
            made.felt.set()
            assert made.go_on.wait(PATIENCE)
            raise

    monkeypatch.setattr(Recorder, "record", spy)
    return made


@pytest.fixture
def outage(stack, unwritten):
    """Kills the database between an answer and its recording; it is back when the block ends."""

    @contextlib.contextmanager
    def begin():
        assert unwritten.answered.wait(PATIENCE), "no request was answered"
        stack.mongod.kill()
        unwritten.dead.set()
        try:
            assert unwritten.felt.wait(PATIENCE), "the outage came too late to be felt"
            yield
        finally:
            unwritten.go_on.set()
            stack.mongod.start()
            stack.mongod.wait_ready()

    return begin


def test_an_answer_is_kept_until_the_database_is_back(send, rows, phones, expo, outage):
    ids = phones(5)
    with ThreadPoolExecutor(1) as pool:
        handled = pool.submit(send, *ids)
        with outage():
            assert not handled.done()
        handled.result(PATIENCE)
    assert {(rows.see(one)["status"], rows.see(one)["unresolvedAttempts"]) for one in ids} == {("sent", 0)}
    assert len(expo.ledger()) == len(ids)
    assert len(expo.requests()) == 1


def test_after_the_drain_deadline_nothing_is_kept_any_longer(send, rows, phones, outage):
    (row_id,) = phones(1)
    with ThreadPoolExecutor(1) as pool:
        handled = pool.submit(send, row_id)
        with outage():
            send.shutdown.request()
        with pytest.raises(DatabaseUnavailable):
            handled.result(PATIENCE)
    # Whoever comes next must know of the attempt.
    assert (rows.see(row_id)["status"], rows.see(row_id)["attemptId"] is None) == ("pending", False)


# --- a claim as short as the settings allow -----------------------------------------------------------------------


def test_a_row_whose_lease_is_too_short_does_not_ring_at_once(send, rows, phones, monkeypatch, expo):
    """A loop of claim, refused mark and ring would keep servers busy and send nothing."""
    (row_id,) = phones(1)
    rung = []
    monkeypatch.setattr(Bell, "ring", lambda _self, frames, at: rung.extend(one.due_at - at for one in frames))
    monkeypatch.setattr("consumer.dispatch.DispatchRules.need", timedelta(seconds=61))
    send(row_id)
    assert rows.see(row_id)["claim"] is None
    assert expo.requests() == []
    [delay] = rung
    assert delay >= timedelta(seconds=0.9)


# --- one bad row among good ones ----------------------------------------------------------------------------------

POISON = [{"notificationTokenId": ...}, {"notificationTokenId": None}, {"unresolvedAttempts": "one"}, {"attempts": "x"}]


@pytest.mark.parametrize("poison", POISON, ids=str)
def test_a_poisonous_row_costs_its_neighbours_nothing(send, rows, phones, poison):
    good, bad = phones(2), phones(1, first=2, **poison)
    send(good[0], bad[0], good[1])
    assert [rows.see(one)["status"] for one in (*good, *bad)] == ["sent"] * 3


class Work:
    """An intake on the test's own queue, run on threads; `handle` is given each frame."""

    def __init__(self, brokers, credentials, category, bell):
        self.shutdown, self.metrics = Shutdown(drain_seconds=5), Metrics()
        self.seen, self.faults, self.clock = [], {}, now
        subscriber = Subscriber(brokers, credentials, [f"notifications.{category}"], 10)
        parts = IntakeParts(subscriber, bell, self._handle, self._now, self.metrics)
        self.intake = Intake(parts, Kind.SEND, 2, self.shutdown)
        self._thread = threading.Thread(target=self.intake.run, kwargs={"once": False})

    def _now(self):
        return self.clock()

    def _handle(self, frame):
        self.seen.append(frame.ids)
        for one in frame.ids:
            if one in self.faults:
                raise self.faults[one]

    def count(self, result):
        return self.metrics.registry.get_sample_value("punktlig_frames_total", {"result": result}) or 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.shutdown.request()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.fixture
def publish(process, category):
    def put(*ids, body=None):
        text = body or encode(Frame(Kind.SEND, category, now(), ids))
        process.publisher.publish([OutgoingMessage(f"notifications.{category}", text)])

    return put


def test_a_frame_that_breaks_its_handler_is_rung_row_by_row(brokers, credentials, category, process, publish):
    with Work(brokers, credentials, category, process.bell) as work:
        work.faults["bad"] = KeyError("field")
        publish("a", "bad", "b")
        await_that(lambda: (work.count("done"), work.count("buried")) == (2, 1), "the neighbours were not handled")
    assert work.seen[0] == ("a", "bad", "b")
    assert sorted(work.seen[1:]) == [("a",), ("b",), ("bad",)]


def test_workers_survive_what_nobody_foresaw(brokers, credentials, category, process, publish, monkeypatch):
    monkeypatch.setattr("consumer.intake._FIRST_PAUSE", 0.1)

    def broken():
        if threading.current_thread().name.startswith("worker-"):
            raise ZeroDivisionError("odd")
        return now()

    with Work(brokers, credentials, category, process.bell) as work:
        work.clock, work.faults["bad"] = broken, KeyError("field")  # so that not even splitting the frame succeeds
        for number in range(4):
            publish(f"{number}", "bad")
        await_that(lambda: work.intake.trouble, "it was not felt")
        assert work.intake.live_workers == 2
        work.clock = now
        await_that(lambda: (work.count("done"), work.count("buried")) == (4, 4), "a frame is lost")
        assert work.intake.live_workers == 2


def test_a_connection_that_goes_in_the_middle_of_a_send_is_an_outage(process, publish):
    """The library's reading thread may take the socket away between its check and its use by another thread."""
    publish("a")

    def send(_frame):
        raise AttributeError("'NoneType' object has no attribute 'sendall'")

    process.publisher._current()._stomp.transport.send = send
    with pytest.raises(BrokerUnavailable):
        publish("b")
    publish("c")


def test_services_complain_of_workers_that_are_gone(process, category):
    service = build_send(process, Shutdown(), [category])
    assert "have died" in service.complaints()["workers"]


def test_while_the_database_is_away_the_clock_of_a_process_goes_on(process, monkeypatch):
    process.clock.now()

    def away():
        raise DatabaseUnavailable("no primary")

    monkeypatch.setattr(process.clock, "REFRESH_SECONDS", 0.0)
    monkeypatch.setattr(process.clock, "_ask", away)
    assert abs(process.clock.now() - now()) < timedelta(seconds=1)


# --- a broker that refuses the log-in for a while -----------------------------------------------------------------


def test_a_refused_log_in_is_waited_out_by_every_worker(
    brokers, credentials, category, fake_broker, publish, monkeypatch
):
    monkeypatch.setattr("consumer.intake._FIRST_PAUSE", 0.1)
    fake = fake_broker(REFUSAL, fires=False)
    elsewhere = Publisher([fake.address], credentials)
    with Work(brokers, credentials, category, Bell(elsewhere, HOUR)) as work:
        for number in range(4):  # twice as many as workers: each would take one to its grave
            publish(body=f"not a frame: {number}")
        await_that(lambda: work.intake.trouble, "the refusal was not felt")
        assert "invalid" in work.intake.trouble
        assert (work.count("buried"), work.intake.live_workers) == (0, 2)
        fake._greeting = fake.CONNECTED
        await_that(lambda: work.count("buried") == 4, "nobody went on")
        assert (work.intake.live_workers, work.intake.trouble) == (2, None)
    elsewhere.close()


def test_a_handler_that_is_refused_does_not_cost_the_frame(brokers, credentials, category, process, publish):
    with Work(brokers, credentials, category, process.bell) as work:
        work.faults["a"] = BrokerRefused("the log-in is wrong")
        publish("a")
        await_that(lambda: work.intake.trouble, "the refusal was not felt")
        work.faults.clear()
        await_that(lambda: work.count("done") == 1, "the frame is lost")
    assert work.count("buried") == 0
    assert set(work.seen) == {("a",)}


# --- what the provider says ---------------------------------------------------------------------------------------


def test_the_brake_hears_of_the_living_too(db, send, phones, expo):
    """One row to a frame, a third of the phones dead: each frame with a failure is nothing but failures."""
    ids = phones(66)
    dead = [f"ExponentPushToken[{number}]" for number in range(0, 66, 3)]
    expo.faults([{"fault": "ticket_error", "error": "DeviceNotRegistered", "tokens": dead}])
    for row_id in ids:
        send(row_id)
    assert db["notification_tokens"].count_documents({"isActive": False}) == len(dead)


def test_an_answer_to_receipts_ends_the_complaint_of_a_refused_one(process, rows, phones, category, expo):
    service = build_receipts(process, Shutdown())
    sent = {"status": "sent", "ticketId": str(uuid.uuid4()), "sentAt": now(), "attemptStartedAt": now()}
    (row_id,) = phones(1, **sent)
    frame = Frame(Kind.RECEIPTS, category, now(), (row_id,))
    expo.faults([{"fault": "unauthorized", "on": "receipts", "times": 1}])
    service.intake._parts.handle(frame)
    assert "401" in service.complaints()["expo"]
    service.intake._parts.handle(frame)
    assert "expo" not in service.complaints()
    assert rows.see(row_id)["status"] == "sent"


def test_in_an_outage_what_was_perhaps_sent_is_no_probe(send, rows, phones, expo, monkeypatch):
    monkeypatch.setattr("consumer.domain.breaker.FIRST_PAUSE", 0.0)
    expo.faults([{"fault": "server_error_after"}])
    for row_id in phones(3):
        send(row_id)
    assert "expo" in send.complaints()
    doubtful = phones(2, first=3, unresolvedAttempts=1, attempts=1)
    (fresh,) = phones(1, first=5)
    send(*doubtful)
    assert len(expo.requests()) == 3, "a re-send was made while the breaker is open"
    expo.faults([])
    send(*doubtful, fresh)
    assert [rows.see(one)["status"] for one in (*doubtful, fresh)] == ["pending", "pending", "sent"]
    assert "expo" not in send.complaints()
    send(*doubtful)
    assert {rows.see(one)["status"] for one in doubtful} == {"sent"}


# --- rows and reminders as other programs leave them --------------------------------------------------------------


def test_a_null_for_the_deleted_flag_is_as_if_it_were_not_there(process, rows, phones, category):
    phones(2)
    rows.collection.delete_many({})
    alert = {"category": category, "title": "Storm", "body": "Stay inside", "isDeleted": None}
    soon = {**alert, "_id": "soon", "userId": "u0", "label": "a", "scheduledAt": now(), "status": None}
    late = {**alert, "_id": "late", "userId": "u1", "label": "b", "scheduledAt": now() - 2 * HOUR, "status": "pending"}
    rows.collection.insert_many([soon, late])
    sweeper = build_sweeper(process)
    sweeper.run(process.server_now())
    sweeper.run(process.server_now())
    row = rows.see("soon")
    assert (row["status"], row["isDeleted"], row["deviceId"]) == ("pending", False, "d0")
    assert row["enqueuedAt"] is not None
    assert (rows.see("late")["status"], rows.see("late")["reason"]) == ("is_missed", "too_late")


ODD_TIMES = [
    {"scheduledAt": "2026-01-01T09:00:00Z"},
    {"scheduledAt": None},
    {"scheduledAt": Timestamp(1, 1)},
    {"scheduledAt": DatetimeMS(-70_000_000_000_000)},
    {"nextAttemptAt": "soon"},
]


@pytest.mark.parametrize("odd", ODD_TIMES, ids=str)
def test_a_row_with_an_odd_time_ends_and_stops_no_sweep(process, rows, phones, odd):
    (bad,) = phones(1, **odd)
    (good,) = phones(1, first=1, scheduledAt=now() + timedelta(minutes=5))
    build_sweeper(process).run(process.server_now())
    assert (rows.see(bad)["status"], rows.see(bad)["reason"]) == ("failed", "invalid_payload")
    assert rows.see(good)["enqueuedAt"] is not None


ODD_ATTEMPTS = [
    {"unresolvedAttempts": "one"},
    {"unresolvedAttempts": True},
    {"unresolvedAttempts": float("nan")},
    {"unresolvedAttempts": -1},
    {"unresolvedAttempts": 1.5},
    {"unresolvedAttempts": DatetimeMS(0)},
    {"attemptId": 7},
    {"attemptId": ""},
    {"attempts": "x"},
]
ODD_IDS = [
    {"userId": {"$oid": "665a00000000000000000001"}},
    {"deviceId": {"$x": 1}},
    {"reminderId": {"$x": 1}},
    {"notificationTokenId": {"$x": 1}},
    {"userId": {"$oid": "665a00000000000000000001"}, "deviceId": ..., "isDeleted": ...},
]


@pytest.mark.parametrize("odd", ODD_ATTEMPTS + ODD_IDS, ids=str)
def test_an_odd_row_ends_like_any_other_and_stops_no_sweep(process, rows, phones, odd):
    (bad,) = phones(1, **{"scheduledAt": now() - 2 * HOUR, **odd})
    (good,) = phones(1, first=1, scheduledAt=now() + timedelta(minutes=5))
    build_sweeper(process).run(process.server_now())
    assert rows.see(bad)["status"] in {"failed", "is_missed"}
    assert rows.see(good)["enqueuedAt"] is not None


@pytest.mark.parametrize("odd", ODD_ATTEMPTS + ODD_IDS[:4], ids=str)
def test_an_odd_row_in_a_frame_stops_nobody(send, rows, phones, odd):
    (bad,) = phones(1, **odd)
    (good,) = phones(1, first=1)
    send(bad, good)
    assert rows.see(good)["status"] == "sent"
    assert rows.see(bad)["status"] in {"sent", "failed", "is_missed"}


def test_a_reminder_that_was_written_anew_rings_in_its_minute(db, process, rows, category):
    at = (now() + 2 * HOUR).strftime("%H:%M")
    db["users"].insert_one({"_id": "u", "timezone": "UTC"})
    db["notification_tokens"].insert_one(
        {"_id": "t", "userId": "u", "deviceId": "d", "token": "ExponentPushToken[u]", "isActive": True}
    )
    words = {"title": "Lunch", "body": "Eat"}
    reminder = {"userId": "u", "category": category, "label": "lunch", "localTimes": [at], **words}
    for name in ("old", "new"):
        db["reminders"].delete_many({})
        db["reminders"].insert_one({"_id": name, **reminder})
        report = build_planner(process).run(process.server_now(), PlanOptions(3 * HOUR))
        assert report.planned == 1
    found = {row["reminderId"]: row["isDeleted"] for row in rows.collection.find()}
    assert found == {"old": True, "new": False}


def test_true_and_one_are_two_people(db, process, rows, category):
    at = (now() + 2 * HOUR).strftime("%H:%M")
    for number, user in enumerate((1, True)):
        db["users"].insert_one({"_id": user, "timezone": "UTC"})
        token = {"userId": user, "deviceId": f"d{number}", "token": f"ExponentPushToken[{number}]", "isActive": True}
        db["notification_tokens"].insert_one(token)
    words = {"title": "Secret", "body": "For one only"}
    db["reminders"].insert_one(
        {"_id": "r", "userId": True, "category": category, "label": "l", "localTimes": [at], **words}
    )
    build_planner(process).run(process.server_now(), PlanOptions(3 * HOUR))
    [row] = rows.collection.find()
    assert (row["userId"], row["deviceId"]) == (True, "d1")


# --- the relay ----------------------------------------------------------------------------------------------------


class Leading:
    """The relay on a thread, with a backlog or sweep that takes as long as the test likes."""

    def __init__(self, process):
        self.relay, self.shutdown = build_relay(process), Shutdown(5)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self.relay.run, args=(self.shutdown,))

    def hold(self):
        self.begun.set()
        assert self.go_on.wait(PATIENCE)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self.go_on.set()
        self.shutdown.request()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@pytest.mark.parametrize("busy_with", ["scan", "sweep"])
def test_an_alert_does_not_wait_for_a_long_scan_or_sweep(process, rows, phones, monkeypatch, busy_with):
    leading = Leading(process)
    if busy_with == "scan":
        read = Backlog.not_enqueued
        monkeypatch.setattr(Backlog, "not_enqueued", lambda *given: leading.hold() or read(*given))
    else:
        monkeypatch.setattr(leading.relay._parts.sweeper, "run", lambda _now: leading.hold())
    with leading:
        assert leading.begun.wait(PATIENCE)
        inserted = time.monotonic()
        (row_id,) = phones(1)
        await_that(lambda: rows.see(row_id)["enqueuedAt"], f"the alert waits for the {busy_with}")
        assert not leading.go_on.is_set()
        assert time.monotonic() - inserted < 3


@pytest.mark.parametrize("odd", ["tomorrow", None, DatetimeMS(-70_000_000_000_000)], ids=str)
def test_a_time_that_becomes_odd_does_not_stop_the_relay(db, process, rows, phones, odd):
    (bad,) = phones(1, scheduledAt=now() + HOUR)
    with Leading(process) as leading:
        await_that(lambda: rows.see(bad)["enqueuedAt"], "the relay does not lead")
        rows.collection.update_one({"_id": bad}, {"$set": {"scheduledAt": odd}})
        (good,) = phones(1, first=1)
        await_that(lambda: rows.see(good)["enqueuedAt"], "the relay follows no more")
        # The place behind it is kept: a relay that starts anew does not meet the same change again.
        await_that(lambda: db["relay_state"].find_one({"_id": "place"}), "the place is not kept")
        assert leading.relay.trouble is None


@pytest.mark.parametrize("odd", ODD_TIMES, ids=str)
def test_a_row_with_an_odd_time_stops_no_relay_at_its_start(process, rows, phones, odd):
    phones(1, **{"scheduledAt": now() + HOUR, **odd})
    (good,) = phones(1, first=1, scheduledAt=now() + HOUR)
    with Leading(process) as leading:
        await_that(lambda: rows.see(good)["enqueuedAt"], "the relay rings nobody's")
        assert leading.relay.trouble is None
