from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.delay import RING_LEAD, delay_ms

NOW = datetime(2026, 3, 29, 7, 0, tzinfo=UTC)
WINDOW = timedelta(hours=2)


@pytest.mark.parametrize(
    ("ahead_ms", "delay"),
    [
        (-60_000, 0),
        (0, 0),
        (550, 0),
        (551, 1),
        (1_000, 450),
        (61_234, 60_684),
        (7_200_550, 7_200_000),
        (90_000_000, 7_200_000),
    ],
)
def test_the_exact_difference_less_the_lead_within_the_window(ahead_ms, delay):
    assert delay_ms(NOW + timedelta(milliseconds=ahead_ms), NOW, WINDOW) == delay


@given(st.timedeltas(timedelta(days=-2), timedelta(days=2)), st.timedeltas(timedelta(0), timedelta(days=1)))
def test_a_whole_number_never_below_zero_never_past_the_window_never_late(ahead, window):
    delay = delay_ms(NOW + ahead, NOW, window)
    assert isinstance(delay, int)
    assert 0 <= delay <= window / timedelta(milliseconds=1)
    if delay:
        assert timedelta(milliseconds=delay) + RING_LEAD <= ahead


@given(st.integers(0, 999))
def test_rows_of_one_second_do_not_share_one_millisecond(ms):
    due = NOW + timedelta(seconds=10, milliseconds=ms)
    assert delay_ms(due, NOW, WINDOW) == 10_000 + ms - 550
