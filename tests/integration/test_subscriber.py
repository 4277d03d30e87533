"""Deliveries over however many connections it takes, acknowledged last."""

import threading
import time

import pytest

from shared.adapters.stomp.connection import Credentials, OutgoingMessage
from shared.adapters.stomp.publisher import Publisher
from shared.adapters.stomp.subscriber import Subscriber

PATIENCE = 15.0


@pytest.fixture
def publisher(brokers, credentials):
    one = Publisher(brokers, credentials)
    yield one
    one.close()


@pytest.fixture
def subscribe(brokers, credentials, queue):
    started = []

    def start(prefetch=10, login=credentials, at=brokers):
        one = Subscriber(at, login, [queue], prefetch)
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.close(5)


def wait_for(condition, seconds=PATIENCE):
    deadline, pause = time.monotonic() + seconds, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def bodies(subscriber, count):
    found = []
    for _ in range(count):
        delivery = subscriber.take(PATIENCE)
        assert delivery is not None
        found.append(delivery)
    return found


def test_deliveries_come_in_and_are_done_once_acknowledged(subscribe, publisher, queue):
    first = subscribe()
    publisher.publish([OutgoingMessage(queue, "a"), OutgoingMessage(queue, "b")])
    for delivery in bodies(first, 2):
        delivery.ack()
    first.close(5)
    assert subscribe().take(0.5) is None


def test_what_was_not_acknowledged_comes_again(subscribe, publisher, queue):
    first = subscribe()
    publisher.publish([OutgoingMessage(queue, "a")])
    (kept,) = bodies(first, 1)
    first.close(5)
    assert kept.is_stale
    kept.ack()
    (again,) = bodies(subscribe(), 1)
    assert again.message.body == b"a"
    assert not again.is_stale
    again.ack()


def test_no_more_than_the_prefetch_is_in_flight(subscribe, publisher, queue):
    one = subscribe(prefetch=2)
    publisher.publish([OutgoingMessage(queue, str(number)) for number in range(3)])
    first, second = bodies(one, 2)
    assert one.take(0.5) is None
    first.ack()
    (third,) = bodies(one, 1)
    assert third.message.body == b"2"
    second.ack()
    third.ack()


def test_two_subscribers_share_a_queue(subscribe, publisher, queue):
    one, other = subscribe(prefetch=1), subscribe(prefetch=1)
    wait_for(lambda: one.is_connected and other.is_connected)
    publisher.publish([OutgoingMessage(queue, str(number)) for number in range(2)])
    (mine,), (yours,) = bodies(one, 1), bodies(other, 1)
    assert {mine.message.body, yours.message.body} == {b"0", b"1"}
    mine.ack()
    yours.ack()


def test_a_wait_can_be_ended(subscribe):
    one = subscribe()
    threading.Timer(0.1, one.wake).start()
    asked = time.monotonic()
    assert one.take(PATIENCE) is None
    assert time.monotonic() - asked < PATIENCE / 2


def test_it_comes_back_after_the_broker_was_killed_and_gets_what_it_had_not_done(stack, subscribe, publisher, queue):
    one = subscribe()
    publisher.publish([OutgoingMessage(queue, "a")])
    (before,) = bodies(one, 1)
    stack.broker.kill()
    wait_for(lambda: not one.is_connected)
    assert before.is_stale
    stack.broker.restart()
    (after,) = bodies(one, 1)
    assert one.is_connected
    assert after.message.body == b"a"
    assert after.connection is not before.connection
    after.ack()


def test_a_refused_log_in_is_told_and_tried_again(subscribe, credentials):
    one = subscribe(login=Credentials(credentials.login, "wrong"))
    wait_for(lambda: one.refused is not None)
    assert not one.is_connected


def test_a_broker_that_hangs_up_at_once_does_not_end_the_supervision(fake_broker, subscribe, credentials):
    broker = fake_broker(hangs_up=True)
    one = subscribe(at=(broker.address,), login=credentials)
    wait_for(lambda: len(broker._open) >= 3 or not one._thread.is_alive())
    assert one._thread.is_alive()
