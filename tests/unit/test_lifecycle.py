import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from shared.runtime.clock import ServerClock, boottime
from shared.runtime.lifecycle import Shutdown

PATIENCE = 10.0


def test_a_wait_ends_when_the_stop_is_asked_for():
    shutdown = Shutdown()
    threading.Timer(0.05, shutdown.request).start()
    started = time.monotonic()
    assert shutdown.wait(PATIENCE) is True
    assert time.monotonic() - started < PATIENCE / 2


def test_without_a_request_a_wait_takes_its_time_and_says_so():
    shutdown = Shutdown()
    assert shutdown.wait(0.01) is False
    assert not shutdown.requested
    assert shutdown.seconds_left == float("inf")


def test_the_deadline_runs_from_the_first_request():
    shutdown = Shutdown(drain_seconds=2.0)
    shutdown.request()
    first = shutdown.seconds_left
    assert 1.5 < first <= 2.0
    threading.Event().wait(0.05)
    shutdown.request()
    assert shutdown.seconds_left < first - 0.04


def test_the_time_left_is_never_less_than_nothing():
    shutdown = Shutdown(drain_seconds=0.0)
    shutdown.request()
    assert shutdown.seconds_left == 0.0


def test_everybody_is_called_once_however_often_it_is_asked():
    shutdown, calls = Shutdown(), []
    shutdown.on_request(lambda: calls.append("a"))
    shutdown.on_request(lambda: calls.append("b"))
    shutdown.request()
    shutdown.request()
    assert calls == ["a", "b"]


def test_who_comes_too_late_is_called_at_once():
    shutdown, calls = Shutdown(), []
    shutdown.request()
    shutdown.on_request(lambda: calls.append("late"))
    assert calls == ["late"]


SERVICE = """
import sys, threading
from shared.runtime.lifecycle import Shutdown
shutdown = Shutdown()
shutdown.listen()
print("ready", flush=True)
if not shutdown.wait(20):
    sys.exit(9)
print("stopping", flush=True)
if sys.argv[1] == "drains":
    threading.Event().wait(20)
    sys.exit(9)
"""


def service(mode):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE, mode],
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),  # noqa: PTH109
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_stop(number):
    with service("ends") as process:
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
        assert process.wait(PATIENCE) == 0


def test_a_second_signal_ends_it_at_once():
    with service("drains") as process:
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 1


# --- clocks -----------------------------------------------------------------------------------------------------


def test_the_clock_that_runs_on_only_grows():
    first, second = boottime(), boottime()
    assert second >= first


@pytest.mark.parametrize("offset", [timedelta(hours=-5), timedelta(0), timedelta(hours=5)])
def test_the_servers_clock_is_followed_wherever_it_stands(offset):
    clock = ServerClock(lambda: datetime.now(UTC) + offset, OSError)
    behind = datetime.now(UTC) + offset - clock.now()
    assert timedelta(milliseconds=-5) <= behind < timedelta(milliseconds=50)


def test_it_never_runs_ahead_of_a_server_that_answers_slowly():
    pause = threading.Event()

    def ask():
        pause.wait(0.02)
        answer = datetime.now(UTC)
        pause.wait(0.02)
        return answer

    clock = ServerClock(ask, OSError)
    assert clock.now() <= datetime.now(UTC) + timedelta(milliseconds=1)


def test_the_server_is_asked_now_and_then_only():
    asked = []

    def ask():
        asked.append(1)
        return datetime.now(UTC)

    clock = ServerClock(ask, OSError)
    for _ in range(100):
        clock.now()
    assert len(asked) == 3


def test_an_estimate_that_has_grown_old_is_made_anew(monkeypatch):
    asked = []

    def ask():
        asked.append(1)
        return datetime.now(UTC)

    monkeypatch.setattr(ServerClock, "REFRESH_SECONDS", 0.01)
    clock = ServerClock(ask, OSError)
    clock.now()
    threading.Event().wait(0.02)
    clock.now()
    assert len(asked) == 6


def test_a_server_that_does_not_answer_is_heard_of():
    def ask():
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        ServerClock(ask, OSError).now()


class Server:
    """A clock that can be asked for the time, unless it is away."""

    def __init__(self):
        self.asked, self.failure = 0, None

    def __call__(self):
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return datetime.now(UTC) + timedelta(hours=5)


def test_while_the_server_is_away_the_last_estimate_serves(monkeypatch):
    monkeypatch.setattr(ServerClock, "REFRESH_SECONDS", 0.0)
    server = Server()
    clock = ServerClock(server, OSError)
    clock.now()
    server.failure = ConnectionError("down")
    expected = datetime.now(UTC) + timedelta(hours=5)
    assert timedelta(milliseconds=-50) <= clock.now() - expected < timedelta(seconds=1)
    assert server.asked > 3, "it was asked in vain"


def test_a_server_that_is_away_holds_up_one_caller_and_not_all(monkeypatch):
    server = Server()
    clock = ServerClock(server, OSError)
    clock.now()
    monkeypatch.setattr(clock, "_asked_at", boottime() - ServerClock.REFRESH_SECONDS - 1)
    server.failure, before = ConnectionError("down"), server.asked
    for _ in range(100):
        clock.now()
    assert server.asked == before + 1


def test_what_is_wrong_for_good_is_heard_of_at_any_time(monkeypatch):
    monkeypatch.setattr(ServerClock, "REFRESH_SECONDS", 0.0)
    server = Server()
    clock = ServerClock(server, OSError)
    clock.now()
    server.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        clock.now()


# --- pauses that a stop must not cut short ------------------------------------------------------------------------


def test_a_pause_goes_on_while_stopping_but_not_past_the_deadline():
    shutdown = Shutdown(drain_seconds=0.2)
    shutdown.request()
    started = time.monotonic()
    shutdown.pause(0.05)
    assert time.monotonic() - started >= 0.05
    shutdown.pause(PATIENCE)
    assert 0.15 <= time.monotonic() - started < PATIENCE / 2
