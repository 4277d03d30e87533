import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.domain.backoff import FIRST_MS, LONGEST_MS, receipt_ms, retry_ms


@pytest.mark.parametrize(
    ("attempts", "low", "high"),
    [(1, 2_000, 4_000), (2, 4_000, 8_000), (3, 8_000, 16_000), (4, 16_000, 32_000), (7, 128_000, 256_000)],
)
def test_each_refusal_doubles_the_wait(attempts, low, high):
    assert retry_ms(attempts, 0.0) == low
    assert 0.999 * high <= retry_ms(attempts, 0.9999) <= high


@given(st.integers(-5, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_is_whole_positive_and_capped(attempts, chance):
    wait = retry_ms(attempts, chance)
    assert isinstance(wait, int)
    assert FIRST_MS / 2 <= wait <= LONGEST_MS


@given(st.integers(1, 30))
def test_chance_spreads_the_herd(attempts):
    assert retry_ms(attempts, 0.9) > retry_ms(attempts, 0.1)


def test_five_attempts_fit_a_grace_of_half_an_hour():
    assert sum(retry_ms(attempts, 0.9999) for attempts in range(1, 5)) < 30 * 60 * 1000


@pytest.mark.parametrize(
    ("waited_s", "again_s"),
    [(0, 900), (300, 900), (900, 900), (1800, 1800), (3600, 3600), (7200, 7200), (50_000, 7200)],
)
def test_a_receipt_is_asked_for_after_as_long_again_up_to_two_hours(waited_s, again_s):
    assert receipt_ms(waited_s * 1000, 900_000) == again_s * 1000


def test_a_delay_longer_than_the_cap_is_kept():
    assert receipt_ms(50_000_000, 10_000_000) == 10_000_000


@given(st.integers(-1_000, 100_000_000), st.integers(1, 10_000_000))
def test_asking_again_never_hurries(waited, first):
    assert receipt_ms(waited, first) >= first
