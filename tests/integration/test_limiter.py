"""The permit that paces all consumers together: never over the rate, never over the connections."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.adapters.mongo.limiter import PACE, Limiter


def limiter(db, rate=100.0, connections=4, hold_seconds=60.0):
    return Limiter(db, rate, connections, hold_seconds)


def test_four_consumers_together_never_pass_the_rate_in_any_rolling_second(db):
    rate, batch, hold_ms = 100.0, 10, 60_000
    start, unasked = threading.Barrier(4), threading.Event()

    def consume(name):
        mine, begun = limiter(db, rate, hold_seconds=hold_ms / 1000), []
        start.wait(10)
        end = time.monotonic() + 1.8
        while time.monotonic() < end:
            slot = f"{name}-{len(begun)}"
            permit = mine.acquire(slot, batch)
            assert permit is not None
            slots = db["expo_permits"].find_one()["slots"]
            begun.append(next(one["until"] for one in slots if one["name"] == slot) - hold_ms)
            unasked.wait(permit.wait_seconds)
            mine.release(permit)
        return begun

    with ThreadPoolExecutor(4) as pool:
        moments = sorted(moment for begun in pool.map(consume, "abcd") for moment in begun)
    for number, moment in enumerate(moments):
        in_a_second = [one for one in moments[number:] if one < moment + 1000]
        assert len(in_a_second) * batch <= rate
    span_seconds = (moments[-1] - moments[0]) / 1000
    assert (len(moments) - 1) * batch / span_seconds == pytest.approx(rate * PACE, rel=0.05)


def test_a_permit_says_how_long_to_wait_for_its_moment(db):
    permits = limiter(db, rate=10, connections=99)
    permits.acquire("a", 20)
    before = time.time()
    permit = permits.acquire("b", 1)
    after = time.time()
    moment = db["expo_permits"].find_one()["slots"][-1]["until"] / 1000 - 60
    assert before + permit.wait_seconds - 0.01 <= moment <= after + permit.wait_seconds + 0.01


def test_there_is_no_burst_after_idle_time(db):
    permits = limiter(db, rate=10)
    permits.acquire("a", 10)
    permits = limiter(db, rate=10, connections=99)
    waits = [permits.acquire(f"s{number}", 10).wait_seconds for number in range(3)]
    spaced = [later - earlier for earlier, later in itertools.pairwise(waits)]
    assert all(gap == pytest.approx(10 / (10 * PACE), abs=0.1) for gap in spaced)


def test_a_bigger_batch_makes_the_next_one_wait_longer(db):
    permits = limiter(db, rate=100, connections=99)
    assert permits.acquire("a", 100).wait_seconds == 0
    assert permits.acquire("b", 1).wait_seconds == pytest.approx(1 / PACE, abs=0.1)
    assert permits.acquire("c", 0).wait_seconds == pytest.approx(1.01 / PACE, abs=0.1)
    assert permits.acquire("d", 0).wait_seconds == pytest.approx(1.01 / PACE, abs=0.1)


def test_no_more_connections_than_allowed(db):
    permits = limiter(db, connections=2)
    first, second = permits.acquire("a", 0), permits.acquire("b", 0)
    assert first is not None
    assert second is not None
    assert permits.acquire("c", 0) is None
    permits.release(first)
    assert permits.acquire("c", 0) is not None
    assert permits.acquire("d", 0) is None


def test_sixteen_threads_share_three_connections(db):
    lock, open_now, most = threading.Lock(), 0, 0
    pause = threading.Event()

    def use(name):
        nonlocal open_now, most
        mine = limiter(db, rate=1e6, connections=3)
        deadline = time.monotonic() + 20
        while (permit := mine.acquire(f"slot-{name}", 1)) is None:
            assert time.monotonic() < deadline
            pause.wait(0.005)
        with lock:
            open_now += 1
            most = max(most, open_now)
        pause.wait(0.01)
        with lock:
            open_now -= 1
        mine.release(permit)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(use, range(16)))
    assert most == 3


def test_a_refusal_reserves_nothing(db):
    permits = limiter(db, rate=10, connections=1)
    first = permits.acquire("a", 0)
    for _ in range(20):
        assert permits.acquire("b", 100) is None
    permits.release(first)
    assert permits.acquire("b", 0).wait_seconds < 0.1


def test_a_slot_that_nobody_gives_back_frees_itself(db):
    permits = limiter(db, connections=1, hold_seconds=0.3)
    taken = time.monotonic()
    assert permits.acquire("killed", 0) is not None
    while permits.acquire("next", 0) is None:
        assert time.monotonic() < taken + 10
    assert time.monotonic() - taken > 0.25


def test_giving_back_twice_frees_nobody_elses_slot(db):
    permits = limiter(db, connections=1)
    first = permits.acquire("a", 0)
    permits.release(first)
    assert permits.acquire("b", 0) is not None
    permits.release(first)
    assert permits.acquire("c", 0) is None


def test_a_pause_holds_everybody_and_is_never_shortened(db):
    permits = limiter(db, connections=99)
    permits.pause(2.0)
    assert permits.acquire("a", 0).wait_seconds == pytest.approx(2.0, abs=0.2)
    limiter(db, connections=99).pause(0.5)
    assert permits.acquire("b", 0).wait_seconds == pytest.approx(2.0, abs=0.3)
    permits.pause(5.0)
    assert permits.acquire("c", 0).wait_seconds == pytest.approx(5.0, abs=0.2)


def test_a_pause_before_the_first_permit_counts(db):
    limiter(db).pause(1.0)
    assert limiter(db).acquire("a", 1).wait_seconds == pytest.approx(1.0, abs=0.2)
