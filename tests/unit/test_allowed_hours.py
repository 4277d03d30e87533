from datetime import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.allowed_hours import AllowedHours, parse_allowed_hours

CLOCKS = st.times()


@pytest.mark.parametrize(
    ("start", "end", "inside", "outside"),
    [
        ("07:00", "22:00", ["07:00", "12:00", "21:59"], ["06:59", "22:00", "23:30", "00:00"]),
        ("22:00", "07:00", ["22:00", "23:59", "00:00", "06:59"], ["07:00", "12:00", "21:59"]),
        ("00:00", "00:01", ["00:00"], ["00:01", "23:59"]),
        ("07:00", "00:00", ["07:00", "23:59"], ["00:00", "06:59"]),
        ("07:00", "24:00", ["07:00", "23:59"], ["00:00", "06:59"]),
        ("09:00", "09:00", ["09:00", "08:59", "00:00", "23:59"], []),
        ("00:00", "24:00", ["00:00", "12:00", "23:59"], []),
        ("23:59", "00:00", ["23:59"], ["00:00", "23:58"]),
    ],
)
def test_start_counts_end_does_not_and_midnight_may_lie_between(
    start: str, end: str, inside: list[str], outside: list[str]
) -> None:
    hours = parse_allowed_hours({"start": start, "end": end})
    assert hours is not None
    assert [clock for clock in inside if not hours.contains(time.fromisoformat(clock))] == []
    assert [clock for clock in outside if hours.contains(time.fromisoformat(clock))] == []


def test_seconds_of_the_clock_count() -> None:
    hours = AllowedHours(time(7), time(22))
    assert hours.contains(time(21, 59, 59, 999_999))
    assert not hours.contains(time(6, 59, 59, 999_999))


def test_none_is_no_restriction() -> None:
    assert parse_allowed_hours(None) is None


def test_other_keys_are_left_alone() -> None:
    assert parse_allowed_hours({"start": "07:00", "end": "22:00", "label": "day"}) == AllowedHours(time(7), time(22))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"start": "07:00"},
        {"end": "07:00"},
        {"start": None, "end": "22:00"},
        {"start": "7:00", "end": "22:00"},
        {"start": "24:00", "end": "22:00"},
        {"start": "07:00", "end": "24:01"},
        {"start": "07:00", "end": 22},
        {"start": "07:00", "end": ["22:00"]},
        [],
        ["07:00", "22:00"],
        "07:00-22:00",
        0,
        False,
    ],
)
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r".{10}"):
        parse_allowed_hours(value)


@given(start=CLOCKS, end=CLOCKS, clock=CLOCKS)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_hours_and_their_complement_share_no_minute(start: time, end: time, clock: time) -> None:
    if start == end:
        assert AllowedHours(start, end).contains(clock)
    else:
        assert AllowedHours(start, end).contains(clock) != AllowedHours(end, start).contains(clock)
