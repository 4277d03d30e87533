import threading

import pytest

from consumer.domain.breaker import FAILURES_TO_OPEN, FIRST_PAUSE, LONGEST_PAUSE, Allowance, Breaker


def opened(now=0.0):
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed(now, "no answer")
    return breaker


def test_it_starts_closed_and_lets_everything_pass():
    breaker = Breaker()
    assert (breaker.state, breaker.ask(0.0), breaker.reason) == ("closed", Allowance(None), None)


def test_two_failures_are_not_enough_and_the_third_in_a_row_opens():
    breaker = Breaker()
    for _ in range(2):
        breaker.failed(0.0, "x")
    assert breaker.state == "closed"
    breaker.failed(0.0, "no answer")
    assert (breaker.state, breaker.reason) == ("open", "no answer")


def test_an_answer_in_between_starts_the_count_anew():
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(0.0, "x")
        breaker.failed(0.0, "x")
        breaker.succeeded()
    assert breaker.state == "closed"


def test_while_open_nothing_passes_and_it_says_for_how_long():
    breaker = opened(100.0)
    assert breaker.ask(101.0) == Allowance(0, FIRST_PAUSE - 1)


def test_half_open_lets_one_row_pass_and_one_only():
    breaker = opened()
    assert breaker.ask(FIRST_PAUSE) == Allowance(1)
    assert breaker.ask(FIRST_PAUSE).rows == 0
    assert breaker.ask(FIRST_PAUSE + 0.1).rows == 0


def test_a_probe_that_is_never_answered_is_followed_by_another():
    breaker = opened()
    breaker.ask(FIRST_PAUSE)
    assert breaker.ask(2 * FIRST_PAUSE) == Allowance(1)


def test_a_good_probe_closes_and_a_bad_one_makes_the_pause_longer():
    breaker = opened()
    breaker.ask(FIRST_PAUSE)
    breaker.failed(FIRST_PAUSE, "x")
    assert breaker.ask(FIRST_PAUSE + 0.1).retry_in == pytest.approx(2 * FIRST_PAUSE - 0.1)
    breaker.succeeded()
    assert (breaker.state, breaker.ask(6.0)) == ("closed", Allowance(None))


def test_the_pause_has_an_end_and_starts_small_again_after_an_answer():
    breaker = opened()
    for _ in range(20):
        breaker.failed(0.0, "x")
    assert breaker.ask(0.0).retry_in == LONGEST_PAUSE
    breaker.succeeded()
    for _ in range(FAILURES_TO_OPEN):
        breaker.failed(0.0, "x")
    assert breaker.ask(0.0).retry_in == FIRST_PAUSE


def test_a_trip_opens_at_once_with_its_reason():
    breaker = Breaker()
    breaker.trip(0.0, "401")
    assert (breaker.state, breaker.reason, breaker.ask(0.0).rows) == ("open", "401", 0)


def test_of_many_threads_that_ask_at_once_one_gets_the_probe():
    breaker = opened()
    start, rows = threading.Barrier(16), []

    def ask():
        start.wait(10)
        rows.append(breaker.ask(FIRST_PAUSE).rows)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(rows) == [0] * 15 + [1]


# --- what was perhaps sent already is no probe --------------------------------------------------------------------


def test_a_re_send_is_no_probe_and_leaves_the_probe_to_others():
    breaker = opened()
    assert breaker.ask(FIRST_PAUSE, re_send=True).rows == 0
    assert breaker.ask(FIRST_PAUSE) == Allowance(1)


@pytest.mark.parametrize("asked_at", [0.0, FIRST_PAUSE - 1, FIRST_PAUSE, FIRST_PAUSE + LONGEST_PAUSE - 1])
def test_a_re_send_is_told_to_wait_and_never_for_nothing(asked_at):
    allowance = opened().ask(asked_at, re_send=True)
    assert allowance.rows == 0
    assert 0 < allowance.retry_in <= FIRST_PAUSE


def test_where_nothing_else_comes_for_long_a_re_send_is_the_probe_and_only_one():
    breaker = opened()
    assert breaker.ask(FIRST_PAUSE + LONGEST_PAUSE, re_send=True) == Allowance(1)
    assert breaker.ask(FIRST_PAUSE + LONGEST_PAUSE, re_send=True).rows == 0


def test_every_probe_begins_the_wait_of_the_re_sends_anew():
    breaker = opened()
    breaker.ask(LONGEST_PAUSE)
    assert breaker.ask(FIRST_PAUSE + LONGEST_PAUSE, re_send=True).rows == 0


def test_a_closed_breaker_lets_re_sends_pass():
    assert Breaker().ask(0.0, re_send=True) == Allowance(None)
