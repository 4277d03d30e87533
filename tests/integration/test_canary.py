"""Does the broker delay? Only a message through its scheduler and back tells."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.local.ports import free_port
from shared.adapters.errors import BrokerRefused, BrokerUnavailable
from shared.adapters.stomp import canary
from shared.adapters.stomp.canary import check_scheduler
from shared.adapters.stomp.connection import Credentials
from shared.runtime.settings import BrokerAddress


def test_the_real_broker_delays(brokers, credentials):
    assert 0 <= check_scheduler(brokers, credentials) < 5


def test_two_canaries_at_once_do_not_take_each_others(brokers, credentials):
    with ThreadPoolExecutor(3) as pool:
        assert all(late >= 0 for late in pool.map(lambda _: check_scheduler(brokers, credentials), range(3)))


def test_a_broker_that_delivers_at_once_is_refused_with_what_to_do(fake_broker, credentials):
    with pytest.raises(BrokerRefused, match="schedulerSupport"):
        check_scheduler([fake_broker().address], credentials)


def test_a_scheduler_that_never_fires_is_unavailable_in_time(fake_broker, credentials, monkeypatch):
    monkeypatch.setattr(canary, "_PATIENCE_SECONDS", 0.5)
    asked = time.monotonic()
    with pytest.raises(BrokerUnavailable, match="did not fire"):
        check_scheduler([fake_broker(fires=False).address], credentials)
    assert time.monotonic() - asked < 8


def test_no_broker_is_unavailable(credentials):
    with pytest.raises(BrokerUnavailable):
        check_scheduler([BrokerAddress("127.0.0.1", free_port(), tls=False)], credentials)


def test_a_wrong_log_in_is_refused(brokers, credentials):
    with pytest.raises(BrokerRefused):
        check_scheduler(brokers, Credentials(credentials.login, "wrong"))
