"""Frames off the broker: handled, then acknowledged, in this order whatever goes wrong."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from consumer.intake import Intake, IntakeParts
from consumer.permits import Stopping
from shared.adapters.errors import DatabaseUnavailable
from shared.adapters.stomp.bell import Bell, dead_letter_queue
from shared.adapters.stomp.connection import OutgoingMessage
from shared.adapters.stomp.publisher import Publisher
from shared.adapters.stomp.subscriber import Subscriber
from shared.domain.envelope import Frame, Kind, encode
from shared.runtime.lifecycle import Shutdown
from shared.runtime.metrics import Metrics

PATIENCE = 15.0


class Consumer:
    """An intake on a queue of the test's own, and what its handler was given."""

    def __init__(self, brokers, credentials, queue, publisher):
        self.frames, self.seen = [], threading.Event()
        self.plan = []  # what to raise, call by call
        self.shutdown, self.metrics = Shutdown(drain_seconds=5), Metrics()
        subscriber = Subscriber(brokers, credentials, [queue], 10)
        bell = Bell(publisher, timedelta(hours=2))
        self.clock_is_lost = False
        parts = IntakeParts(subscriber, bell, self._handle, self._now, self.metrics)
        self.intake = Intake(parts, Kind.SEND, 2, self.shutdown)

    def _now(self):
        if self.clock_is_lost:
            raise DatabaseUnavailable("away before its clock was ever read")
        return datetime.now(UTC)

    def _handle(self, frame):
        self.frames.append((frame, time.monotonic()))
        error = self.plan.pop(0) if self.plan else None
        self.seen.set()
        if error is not None:
            raise error

    def ids(self):
        return [frame.ids for frame, _ in self.frames]

    def handled(self, result):
        return self.metrics.registry.get_sample_value("punktlig_frames_total", {"result": result}) or 0


@pytest.fixture
def publisher(brokers, credentials):
    one = Publisher(brokers, credentials)
    yield one
    one.close()


@pytest.fixture
def consumer(brokers, credentials, queue, publisher, monkeypatch):
    monkeypatch.setattr("consumer.intake._IDLE_SECONDS", 0.4)
    return lambda: Consumer(brokers, credentials, queue, publisher)


def frame(*ids, due=None):
    return encode(Frame(Kind.SEND, "meal", due or datetime.now(UTC), ids))


def test_what_is_there_is_handled_and_then_the_process_may_end(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a")), OutgoingMessage(queue, frame("b"))])
    one = consumer()
    assert one.intake.run(once=True) is True
    assert sorted(one.ids()) == [("a",), ("b",)]
    assert one.handled("done") == 2
    again = consumer()
    again.intake.run(once=True)
    assert again.frames == []


def test_a_frame_that_cannot_be_finished_now_is_handled_again_before_it_is_acknowledged(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a"))])
    one = consumer()
    one.plan = [DatabaseUnavailable("down"), DatabaseUnavailable("down")]
    assert one.intake.run(once=True) is True
    assert one.ids() == [("a",)] * 3
    assert one.handled("done") == 1
    assert one.intake.trouble is None


def test_a_frame_that_is_not_done_when_the_process_ends_is_somebody_elses(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a"))])
    one = consumer()
    one.plan = [DatabaseUnavailable("down")] * 99
    thread = threading.Thread(target=one.intake.run, kwargs={"once": False})
    thread.start()
    assert one.seen.wait(PATIENCE)
    assert one.handled("done") == 0
    one.shutdown.request()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    other = consumer()
    other.intake.run(once=True)
    assert other.ids() == [("a",)]


def test_a_frame_that_was_not_begun_when_the_stop_came_is_somebody_elses_too(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a"))])
    one = consumer()
    one.plan = [Stopping()]
    thread = threading.Thread(target=one.intake.run, kwargs={"once": False})
    thread.start()
    assert one.seen.wait(PATIENCE)
    one.shutdown.request()
    thread.join(PATIENCE)
    other = consumer()
    other.intake.run(once=True)
    assert other.ids() == [("a",)]


POISON = {
    "not JSON": b"hello",
    "bytes": b"\xff\x00\xfe",
    "another kind": encode(Frame(Kind.RECEIPTS, "meal", datetime(2026, 6, 1, tzinfo=UTC), ("a",))).encode(),
    "an instant that no calendar holds": (
        b'{"v":1,"kind":"send","category":"meal","dueAt":"0001-01-01T00:00:00+14:00","ids":["a"]}'
    ),
}


@pytest.mark.parametrize("name", POISON)
def test_what_cannot_be_read_is_kept_apart_and_stops_nobody(stack, consumer, publisher, queue, name):
    publisher.publish([OutgoingMessage(queue, POISON[name]), OutgoingMessage(queue, frame("good"))])
    one = consumer()
    assert one.intake.run(once=True) is True
    assert one.ids() == [("good",)]
    assert (one.handled("buried"), one.handled("done")) == (1, 1)
    with stack.broker.dialogue(PATIENCE, as_ops=True) as ops:
        ops.subscribe(f"/queue/{dead_letter_queue(queue)}")
        letter = ops.expect("MESSAGE", PATIENCE)
    assert letter.body == POISON[name]
    assert letter.headers["reason"]


def test_a_frame_that_breaks_its_handler_is_kept_apart_and_stops_nobody(stack, consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("bad"))])
    one = consumer()
    one.plan = [ZeroDivisionError("secret detail")]
    assert one.intake.run(once=True) is True
    assert one.handled("buried") == 1
    with stack.broker.dialogue(PATIENCE, as_ops=True) as ops:
        ops.subscribe(f"/queue/{dead_letter_queue(queue)}")
        letter = ops.expect("MESSAGE", PATIENCE)
    assert "ZeroDivisionError" in letter.headers["reason"]
    assert "secret detail" not in letter.headers["reason"]


def test_a_frame_that_rings_a_little_early_waits_for_its_instant(consumer, publisher, queue):
    due = datetime.now(UTC) + timedelta(seconds=1)
    publisher.publish([OutgoingMessage(queue, frame("a", due=due))])
    one = consumer()
    one.intake.run(once=True)
    ((_, handled_at),) = one.frames
    late = handled_at - time.monotonic() + (datetime.now(UTC) - due).total_seconds()
    assert -0.01 <= late < 1


def test_a_database_that_is_away_when_a_frame_arrives_ends_no_process(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a"))])
    one = consumer()
    one.clock_is_lost = True
    assert one.intake.run(once=True), "it did not end as asked"
    assert one.ids() == [("a",)]


def test_a_frame_that_rings_much_too_early_is_handled_at_once(consumer, publisher, queue):
    publisher.publish([OutgoingMessage(queue, frame("a", due=datetime.now(UTC) + timedelta(hours=1)))])
    one = consumer()
    started = time.monotonic()
    one.intake.run(once=True)
    assert one.ids() == [("a",)]
    assert time.monotonic() - started < PATIENCE


def test_a_frame_that_waits_for_its_instant_does_not_hold_up_the_others(consumer, publisher, queue):
    soon = datetime.now(UTC) + timedelta(seconds=2)
    waiting = [OutgoingMessage(queue, frame(f"late-{number}", due=soon)) for number in range(4)]
    publisher.publish([*waiting, OutgoingMessage(queue, frame("now"))])
    one = consumer()
    one.intake.run(once=True)
    assert one.ids()[0] == ("now",)
    assert len(one.frames) == 5
