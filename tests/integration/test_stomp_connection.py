"""One connection to the broker: what it proves with a receipt, and how it ends when nobody answers."""

import json
import queue as queues
import socket
import time
from datetime import UTC, datetime, timedelta

import pytest

from deploy.local.ports import free_port
from shared.adapters.errors import BrokerRefused, BrokerUnavailable
from shared.adapters.stomp import connection as module
from shared.adapters.stomp.bell import Bell, dead_letter_queue
from shared.adapters.stomp.connection import Connection, Credentials, OutgoingMessage, connect_any
from shared.adapters.stomp.publisher import Publisher
from shared.domain.envelope import Frame, Kind, decode
from shared.runtime.settings import BrokerAddress

PATIENCE = 10.0


class Listener:
    """A connection, and what came in on it."""

    def __init__(self, brokers, credentials):
        self.arrived = queues.Queue()
        self.connection = connect_any(brokers, credentials, self.arrived.put)

    def take(self):
        return self.arrived.get(timeout=PATIENCE)

    def is_quiet(self, seconds=0.5):
        try:
            self.arrived.get(timeout=seconds)
        except queues.Empty:
            return True
        return False


@pytest.fixture
def listener(brokers, credentials):
    one = Listener(brokers, credentials)
    yield one
    one.connection.close()


@pytest.fixture
def publisher(brokers, credentials):
    one = Publisher(brokers, credentials)
    yield one
    one.close()


def test_what_is_published_arrives_as_it_was(listener, queue):
    body = json.dumps({"text": "Frühstück: 早餐\n\\"}, ensure_ascii=False)
    listener.connection.subscribe(queue, prefetch=10)
    listener.connection.publish([OutgoingMessage(queue, body, headers={"reason": "a:b\nc\\d é"})])
    message = listener.take()
    assert (message.queue, message.body.decode()) == (queue, body)
    assert message.headers["reason"] == "a:b\nc\\d é"
    assert message.headers["persistent"] == "true"
    listener.connection.ack(message.ack_id)


def test_many_messages_go_in_one_transaction(listener, queue):
    listener.connection.subscribe(queue, prefetch=100)
    listener.connection.publish([OutgoingMessage(queue, str(number)) for number in range(50)])
    bodies = []
    for _ in range(50):
        message = listener.take()
        bodies.append(message.body)
        listener.connection.ack(message.ack_id)
    assert bodies == [str(number).encode() for number in range(50)]


def test_a_transaction_without_a_commit_leaves_nothing(brokers, credentials, listener, queue):
    listener.connection.subscribe(queue, prefetch=10)
    other = connect_any(brokers, credentials, lambda _message: None)
    transaction = other._stomp.begin()
    other._send(OutgoingMessage(queue, "lost"), transaction=transaction)
    other.close()
    listener.connection.publish([OutgoingMessage(queue, "kept")])
    message = listener.take()
    assert message.body == b"kept"
    listener.connection.ack(message.ack_id)


@pytest.mark.parametrize("count", [1, 3])
def test_a_delay_is_kept_alone_and_in_a_transaction(listener, queue, count):
    listener.connection.subscribe(queue, prefetch=10)
    asked = time.monotonic()
    listener.connection.publish([OutgoingMessage(queue, "later", delay_ms=700)] * count)
    for _ in range(count):
        listener.connection.ack(listener.take().ack_id)
    assert 0.65 <= time.monotonic() - asked <= 5


def test_what_is_not_acknowledged_comes_again_to_the_next(brokers, credentials, queue):
    first = Listener(brokers, credentials)
    first.connection.subscribe(queue, prefetch=10)
    first.connection.publish([OutgoingMessage(queue, "a"), OutgoingMessage(queue, "b")])
    kept, done = first.take(), first.take()
    first.connection.ack(done.ack_id)
    first.connection.close()

    second = Listener(brokers, credentials)
    second.connection.subscribe(queue, prefetch=10)
    again = second.take()
    assert again.body == kept.body
    assert second.is_quiet()
    second.connection.ack(again.ack_id)
    second.connection.close()


def test_a_wrong_passcode_is_refused_and_not_told(brokers, credentials):
    wrong = Credentials(credentials.login, "not-the-passcode")
    with pytest.raises(BrokerRefused) as caught:
        connect_any(brokers, wrong, lambda _message: None)
    assert str(brokers[0].port) in str(caught.value)
    assert "not-the-passcode" not in str(caught.value)
    assert "not-the-passcode" not in repr(wrong)


def test_a_queue_that_is_not_ours_is_refused_at_once(brokers, credentials):
    for act in (
        lambda one: one.publish([OutgoingMessage("somebody.elses", "x")]),
        lambda one: one.subscribe("DLQ.notifications.meal", prefetch=1),
    ):
        one = connect_any(brokers, credentials, lambda _message: None)
        asked = time.monotonic()
        with pytest.raises((BrokerRefused, BrokerUnavailable)):
            act(one)
        assert time.monotonic() - asked < PATIENCE
        one.discard()


def test_nobody_listens(credentials):
    asked = time.monotonic()
    with pytest.raises(BrokerUnavailable):
        connect_any([BrokerAddress("127.0.0.1", free_port(), tls=False)], credentials, lambda _message: None)
    assert time.monotonic() - asked < module.CONNECT_SECONDS + 2


def test_somebody_listens_and_says_nothing(credentials, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = BrokerAddress("127.0.0.1", silent.getsockname()[1], tls=False)
        asked = time.monotonic()
        with pytest.raises(BrokerUnavailable):
            Connection(address, credentials, lambda _message: None)
        assert time.monotonic() - asked < 4


def test_tls_to_a_broker_without_tls_is_unavailable(brokers, credentials, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 0.5)
    plain = BrokerAddress(brokers[0].host, brokers[0].port, tls=True)
    with pytest.raises(BrokerUnavailable):
        Connection(plain, credentials, lambda _message: None)


def test_the_next_address_of_the_list_is_taken(brokers, credentials):
    dead = BrokerAddress("127.0.0.1", free_port(), tls=False)
    one = connect_any([dead, *brokers], credentials, lambda _message: None)
    assert one.address == brokers[0]
    one.close()


def test_a_greeting_that_is_an_error_is_a_refusal(fake_broker, credentials):
    broker = fake_broker(b"ERROR\nmessage:go away\n\n\0")
    with pytest.raises(BrokerRefused, match="go away"):
        Connection(broker.address, credentials, lambda _message: None)


def test_a_broker_that_hangs_up_after_its_greeting_is_unavailable_now_or_later(fake_broker, credentials):
    broker = fake_broker(hangs_up=True)
    for _ in range(30):
        try:
            one = Connection(broker.address, credentials, lambda _message: None)
            assert one.closed.wait(PATIENCE)
        except BrokerUnavailable:
            continue


def test_a_frozen_broker_costs_one_receipts_time_and_the_connection(stack, brokers, credentials, queue, monkeypatch):
    monkeypatch.setattr(module, "RECEIPT_SECONDS", 1.0)
    one = connect_any(brokers, credentials, lambda _message: None)
    stack.broker.pause()
    try:
        asked = time.monotonic()
        with pytest.raises(BrokerUnavailable, match="no receipt"):
            one.publish([OutgoingMessage(queue, "x")])
        assert 0.9 < time.monotonic() - asked < 4
        assert one.closed.is_set()
        with pytest.raises(BrokerUnavailable):
            one.publish([OutgoingMessage(queue, "x")])
    finally:
        stack.broker.resume()


def test_heart_beats_notice_a_frozen_broker_without_any_work(stack, brokers, credentials, monkeypatch):
    monkeypatch.setattr(module, "HEARTBEAT_MS", 500)
    one = connect_any(brokers, credentials, lambda _message: None)
    assert not one.closed.wait(1.5)
    stack.broker.pause()
    try:
        assert one.closed.wait(PATIENCE)
    finally:
        stack.broker.resume()
        one.discard()


def test_a_killed_broker_keeps_what_it_has_answered_for_and_gets_a_new_connection(
    stack, publisher, brokers, credentials, queue
):
    publisher.publish([OutgoingMessage(queue, "kept"), OutgoingMessage(queue, "kept too", delay_ms=200)])
    assert publisher.is_connected
    stack.broker.kill()
    with pytest.raises(BrokerUnavailable):
        publisher.publish([OutgoingMessage(queue, "lost")])
    assert not publisher.is_connected
    stack.broker.restart()
    publisher.publish([OutgoingMessage(queue, "after")])
    assert publisher.is_connected

    reader = Listener(brokers, credentials)
    reader.connection.subscribe(queue, prefetch=10)
    bodies = set()
    for _ in range(3):
        message = reader.take()
        bodies.add(message.body)
        reader.connection.ack(message.ack_id)
    assert bodies == {b"kept", b"kept too", b"after"}
    reader.connection.close()


def test_more_than_one_transactions_worth_is_split(publisher, listener, queue, monkeypatch):
    monkeypatch.setattr("shared.adapters.stomp.publisher.TRANSACTION_SIZE", 10)
    listener.connection.subscribe(queue, prefetch=100)
    publisher.publish([OutgoingMessage(queue, str(number)) for number in range(25)])
    bodies = []
    for _ in range(25):
        message = listener.take()
        bodies.append(int(message.body))
        listener.connection.ack(message.ack_id)
    assert bodies == list(range(25))


# --- the bell -------------------------------------------------------------------------------------------------


def test_a_frame_rings_shortly_before_its_instant(publisher, listener, queue):
    category = queue.removeprefix("notifications.")
    listener.connection.subscribe(queue, prefetch=10)
    now = datetime.now(UTC)
    due = (now + timedelta(seconds=1.5)).replace(microsecond=0) + timedelta(seconds=1)
    frame = Frame(Kind.SEND, category, due, ("a", "b"))
    Bell(publisher, timedelta(hours=2)).ring([frame], now)
    message = listener.take()
    early = (due - datetime.now(UTC)).total_seconds()
    assert -0.5 <= early <= 0.7
    assert decode(message.body, Kind.SEND) == frame
    listener.connection.ack(message.ack_id)


BURIED = {
    "text": b"hello",
    "no UTF-8": b"\xff\xfe",
    "with the byte that ends a frame": b"before\x00after\xff",
    "nothing": b"",
    "like a frame": b"SEND\ndestination:/queue/notifications.meal\n\nx",
}


@pytest.mark.parametrize("name", BURIED)
def test_a_dead_letter_is_kept_byte_for_byte_with_its_reason(stack, publisher, queue, name):
    Bell(publisher, timedelta(hours=2)).bury(queue, BURIED[name], "not JSON: line 1\ncolumn: 2 \\ é")
    with stack.broker.dialogue(PATIENCE, as_ops=True) as ops:
        ops.subscribe(f"/queue/{dead_letter_queue(queue)}")
        letter = ops.expect("MESSAGE", PATIENCE)
    assert letter.body == BURIED[name]
    assert letter.headers["reason"] == "not JSON: line 1\ncolumn: 2 \\ é"


def test_binary_messages_of_others_arrive_whole(stack, listener, queue):
    body = b"before\x00after\xff"
    listener.connection.subscribe(queue, prefetch=10)
    with stack.broker.dialogue(PATIENCE) as other:
        other.send_with_receipt({"destination": f"/queue/{queue}", "persistent": "true"}, body, PATIENCE)
    message = listener.take()
    assert message.body == body
    listener.connection.ack(message.ack_id)
