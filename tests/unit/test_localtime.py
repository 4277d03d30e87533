"""Wall-clock times against a table of known instants, against properties, and a walk along the clock."""

import json
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.domain.localtime import (
    BadLocalTime,
    candidate_dates,
    day_bounds,
    local_clock_at,
    local_date_at,
    parse_local_time,
    resolve,
)
from shared.domain.zones import parse_zone, tzdata_version, zone_names

KNOWN = json.loads((Path(__file__).parent / "data" / "tz_cases.json").read_text(encoding="utf-8"))
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
# Zones whose clocks have done what others never did, with a date near it.
ODDITIES = [
    ("Pacific/Apia", date(2011, 12, 30)),  # a date skipped
    ("Pacific/Fakaofo", date(2011, 12, 30)),
    ("Pacific/Kwajalein", date(1993, 8, 21)),
    ("Pacific/Kiritimati", date(1994, 12, 31)),
    ("America/St_Johns", date(2006, 10, 29)),  # back over midnight from a minute after it
    ("America/St_Johns", date(1988, 4, 3)),  # two hours
    ("America/Scoresbysund", date(2024, 3, 31)),  # two changes that cancel
    ("Asia/Kathmandu", date(1986, 1, 1)),  # a quarter of an hour
    ("Australia/Lord_Howe", date(1985, 10, 27)),
    ("Asia/Pyongyang", date(2018, 5, 4)),  # half an hour over midnight
    ("America/Caracas", date(2016, 5, 1)),
    ("Europe/Warsaw", date(1977, 4, 3)),
    ("Africa/Cairo", date(2014, 5, 15)),
    ("Antarctica/Casey", date(2010, 3, 5)),  # three hours
    ("Antarctica/Troll", date(2026, 3, 29)),
    ("America/Nuuk", date(2024, 3, 30)),
    ("America/Toronto", date(1919, 3, 30)),  # midnight in the middle of the gap
]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def by_id(rows: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(row, id=row.get("id") or f"{row['zone']} {row['date']}") for row in rows]


def resolved(row: dict[str, Any]) -> datetime | None:
    return resolve(date.fromisoformat(row["date"]), parse_local_time(row["time"]), parse_zone(row["zone"]))


def test_the_table_was_made_with_this_data_or_older() -> None:
    assert tzdata_version() >= KNOWN["tzdata"]
    assert len(KNOWN["cases"]) == 49


@pytest.mark.parametrize("row", by_id(KNOWN["cases"]))
def test_known_instants(row: dict[str, Any]) -> None:
    found = resolved(row)
    assert found == (row["instant"] and instant(row["instant"]))
    if found is None:
        assert row["kind"] == "no_such_date"
        assert day_bounds(date.fromisoformat(row["date"]), parse_zone(row["zone"])) is None
        return
    assert found.tzinfo is UTC
    zone = parse_zone(row["zone"])
    rings_at = datetime.combine(local_date_at(found, zone), local_clock_at(found, zone))
    wall = datetime.fromisoformat(f"{row['date']}T{row['time']}")
    assert rings_at == datetime.fromisoformat(row.get("rings_at_local", wall.isoformat()))
    assert rings_at - wall == timedelta(seconds=row.get("gap_seconds", 0))
    assert ("second" in row) == (row["kind"] == "fold")
    if "second" in row:
        second = instant(row["second"])
        assert second > found
        assert (local_date_at(second, zone), local_clock_at(second, zone)) == (wall.date(), wall.time())


@pytest.mark.parametrize("row", by_id(KNOWN["days"]))
def test_known_days(row: dict[str, Any]) -> None:
    bounds = day_bounds(date.fromisoformat(row["date"]), parse_zone(row["zone"]))
    assert bounds == (instant(row["start"]), instant(row["end"]))
    assert bounds[1] - bounds[0] == row["hours"] * HOUR


@pytest.mark.parametrize("row", by_id(KNOWN["travel"]))
def test_a_traveller_meets_each_date_at_the_time_of_where_they_are(row: dict[str, Any]) -> None:
    clock = parse_local_time(row["time"])
    before, after = parse_zone(row["before"]), parse_zone(row["after"])
    day, next_day = date.fromisoformat(row["date"]), date.fromisoformat(row["next_date"])
    assert resolve(day, clock, before) == instant(row["planned"])
    assert resolve(day, clock, after) == instant(row["now_due"])
    assert resolve(next_day, clock, after) == instant(row["next_due"])


# The walk: an oracle that knows nothing of offsets. It steps along UTC by minutes and reads the wall.


@lru_cache(maxsize=1)
def clock_changes() -> list[tuple[str, date]]:
    """Find the dates of the changes of 2024 to 2026, once for zones of one history, and the oddities."""
    histories: dict[tuple[datetime, ...], str] = {}
    half_days = [datetime(2024, 1, 1, tzinfo=UTC) + n * 12 * HOUR for n in range(3 * 731)]
    changes = list(ODDITIES)
    for name in zone_names():
        zone = parse_zone(name)
        offsets = [at.astimezone(zone).utcoffset() for at in half_days]
        jumps = tuple(at for at, old, new in zip(half_days[1:], offsets, offsets[1:], strict=False) if old != new)
        history = (*jumps, half_days[0].astimezone(zone).replace(tzinfo=UTC))
        if jumps and history not in histories:
            histories[history] = name
            changes += [(name, local_date_at(at - 6 * HOUR, zone)) for at in jumps]
    return changes


class Walk:
    """More than four days of one wall clock, read every minute."""

    def __init__(self, zone_name: str, around: date) -> None:
        self.zone = parse_zone(zone_name)
        noon = datetime.combine(around, time(12), UTC)
        self.minutes = [noon + n * MINUTE for n in range(-54 * 60, 54 * 60)]
        self.walls = [at.astimezone(self.zone).replace(tzinfo=None, fold=0) for at in self.minutes]
        self.first_seen: dict[datetime, int] = {}
        for index, wall in enumerate(self.walls):
            self.first_seen.setdefault(wall, index)
        self.dates = {wall.date() for wall in self.walls}

    def due(self, wall: datetime) -> datetime | None:
        if wall.date() not in self.dates:
            return None
        if wall in self.first_seen:
            return self.minutes[self.first_seen[wall]]
        jumped = next(index for index, seen in enumerate(self.walls) if seen > wall and index)
        gap = self.walls[jumped] - self.walls[jumped - 1] - MINUTE
        return self.minutes[self.first_seen[wall + gap]]


def test_every_minute_around_every_change_of_the_clock_as_a_walk_along_it_finds_it() -> None:
    changes = clock_changes()
    assert len(changes) > 200
    wrong = []
    kinds = set()
    for name, day in changes:
        walk = Walk(name, day)
        midnight = datetime.combine(day, time()) - 10 * HOUR
        for wall in (midnight + n * 3 * MINUTE for n in range(0, 20 * 44, 2)):
            expected = walk.due(wall)
            found = resolve(wall.date(), wall.time(), walk.zone)
            if found != expected:
                wrong.append((name, wall, found, expected))
            kinds.add((wall in walk.first_seen, expected is None))
    assert wrong == []
    assert kinds == {(True, False), (False, False), (False, True)}


def test_days_around_every_change_follow_one_another_as_on_a_walk() -> None:
    for name, day in clock_changes():
        walk = Walk(name, day)
        for local_date in (day - DAY, day, day + DAY):
            bounds = day_bounds(local_date, walk.zone)
            seen = [at for at, wall in zip(walk.minutes, walk.walls, strict=True) if wall.date() == local_date]
            assert (bounds is None) == (seen == []), (name, local_date)
            if bounds is not None:
                later = [at for at, wall in zip(walk.minutes, walk.walls, strict=True) if wall.date() > local_date]
                assert (bounds[0], bounds[1]) == (seen[0], later[0]), (name, local_date)


# Properties, over all zones and some eighty years.

ZONES = st.sampled_from(zone_names())
DATES = st.dates(date(1970, 1, 2), date(2050, 12, 30))
CLOCKS = st.times()
NEAR_CHANGES = st.sampled_from(range(100_000)).map(lambda n: clock_changes()[n % len(clock_changes())])
PLACES = st.one_of(
    st.tuples(ZONES, DATES),
    st.tuples(NEAR_CHANGES, st.integers(-2, 2)).map(lambda drawn: (drawn[0][0], drawn[0][1] + drawn[1] * DAY)),
)
properly = settings(derandomize=True, deadline=None, max_examples=500)


@given(place=PLACES, clock=CLOCKS)
@example(place=("Africa/Monrovia", date(1972, 1, 7)), clock=time(0, 30))  # seconds in the offset
@properly
def test_once_on_each_date_that_exists_and_never_early(place: tuple[str, date], clock: time) -> None:
    name, day = place
    zone = parse_zone(name)
    due = resolve(day, clock, zone)
    bounds = day_bounds(day, zone)
    assert (due is None) == (bounds is None)
    if due is None or bounds is None:
        return
    wall = datetime.combine(day, clock)
    rings_at = datetime.combine(local_date_at(due, zone), local_clock_at(due, zone))
    offset, offset_before = ((due - back).astimezone(zone).utcoffset() for back in (timedelta(0), DAY))
    assert offset is not None
    assert offset_before is not None
    assert due >= bounds[0]
    assert rings_at >= wall
    if rings_at > wall:  # a gap: later by what the clock jumped, and the wall time is never seen
        assert rings_at - wall == offset - offset_before
        assert all(at.astimezone(zone).replace(tzinfo=None, fold=0) != wall for at in (due, due - (rings_at - wall)))
    else:
        assert due < bounds[1]
        # No earlier pass of the clock shows this time.
        earlier = (due - back for back in (HOUR / 4, HOUR / 2, HOUR, 1.5 * HOUR, 2 * HOUR, 3 * HOUR, 23 * HOUR, DAY))
        assert all(at.astimezone(zone).replace(tzinfo=None, fold=0) != wall for at in earlier)
    assert resolve(day, clock.replace(fold=1), zone) == due


@given(place=PLACES)
@properly
def test_days_have_no_holes_and_no_overlap(place: tuple[str, date]) -> None:
    name, day = place
    zone = parse_zone(name)
    bounds = day_bounds(day, zone)
    following = day_bounds(day + DAY, zone) or day_bounds(day + 2 * DAY, zone)
    assert following is not None
    if bounds is None:
        assert local_date_at(following[0] - SECOND, zone) < day < local_date_at(following[0], zone)
        return
    assert bounds[1] == following[0]
    assert local_date_at(bounds[0], zone) == day
    assert local_date_at(bounds[0] - timedelta(microseconds=1), zone) < day
    assert 20 * HOUR <= bounds[1] - bounds[0] <= 28 * HOUR


@given(place=PLACES, clock=CLOCKS, back=st.integers(0, 400 * 60), length=st.integers(1, 500 * 60))
@properly
def test_the_candidates_hold_every_date_that_resolves_into_the_window(
    place: tuple[str, date], clock: time, back: int, length: int
) -> None:
    name, day = place
    zone = parse_zone(name)
    due = resolve(day, clock, zone)
    if due is None:
        return
    # Windows that begin with it, end with it, and miss it by nothing.
    start = due - back * MINUTE
    end = max(start + length * MINUTE, due + timedelta(microseconds=1))
    for window in ((start, end), (due, end), (due, due + SECOND), (start, due + timedelta(microseconds=1))):
        found = list(candidate_dates(*window, zone))
        assert day in found
        assert found == [found[0] + n * DAY for n in range(len(found))]
        assert len(found) <= (window[1] - window[0]) / DAY + 4
    assert list(candidate_dates(due, due, zone)) == []
    assert list(candidate_dates(due, due - SECOND, zone)) == []


def test_candidates_of_a_plain_day_are_no_more_than_needed() -> None:
    start = instant("2026-07-01T10:00:00Z")
    assert list(candidate_dates(start, start + DAY, parse_zone("Asia/Tokyo"))) == [
        date(2026, 7, 1),
        date(2026, 7, 2),
    ]
    assert list(candidate_dates(start, start + HOUR, parse_zone("Asia/Tokyo"))) == [date(2026, 7, 1)]
    midnight = instant("2026-07-01T15:00:00Z")
    assert list(candidate_dates(start, midnight, parse_zone("Asia/Tokyo"))) == [date(2026, 7, 1)]


def test_an_evening_shifted_over_midnight_is_a_candidate_of_the_next_morning() -> None:
    zone = parse_zone("America/Nuuk")
    due = resolve(date(2024, 3, 30), time(23, 30), zone)
    assert due is not None
    assert local_date_at(due, zone) == date(2024, 3, 31)
    assert date(2024, 3, 30) in candidate_dates(due - 10 * MINUTE, due + HOUR, zone)


def test_a_minute_of_the_new_date_before_the_clock_goes_back_is_a_candidate() -> None:
    zone = parse_zone("America/St_Johns")
    due = resolve(date(2006, 10, 29), time(0, 0), zone)
    assert due is not None
    window = (due - HOUR, due + 10 * MINUTE)
    assert [local_date_at(at, zone) for at in window] == [date(2006, 10, 28)] * 2
    assert list(candidate_dates(*window, zone)) == [date(2006, 10, 28), date(2006, 10, 29)]


@pytest.mark.parametrize("text", ["00:00", "09:00", "23:59", "12:34"])
def test_local_times(text: str) -> None:
    assert parse_local_time(text).isoformat("minutes") == text


@pytest.mark.parametrize(
    "text",
    [
        *[
            "25:61",
            "24:00",
            "23:60",
            "9:00",
            "09:0",
            "09:00:00",
            " 09:00",
            "09:00 ",
            "09:00\n",
            "0900",
            "09.00",
            "",
        ],
        *[
            "-9:00",
            "+9:00",
            "9:00 PM",
            "\u0660\u0669:\u0660\u0660",
            "09:00Z",
            "09:00+02:00",
            "\x00",
            "\ud800",
            "0" * 10_000,
        ],
        *[None, 9, 9.0, True, time(9), b"09:00", ["09:00"]],
    ],
)
def test_what_is_no_local_time_is_refused(text: object) -> None:
    with pytest.raises(BadLocalTime) as refused:
        parse_local_time(text)
    assert len(str(refused.value)) < 200


def test_an_instant_without_offset_is_refused_and_not_taken_for_the_time_of_the_machine() -> None:
    naive = datetime(2026, 7, 1, 9)  # noqa: DTZ001 - the point
    zone = parse_zone("Europe/Paris")
    for ask in (local_date_at, local_clock_at):
        with pytest.raises(ValueError, match="offset"):
            ask(naive, zone)
    with pytest.raises(ValueError, match="offset"):
        list(candidate_dates(naive, naive + DAY, zone))


def test_instants_in_any_offset_are_understood() -> None:
    there = datetime(2026, 7, 1, 23, 30, tzinfo=timezone(timedelta(hours=-8)))
    assert local_date_at(there, parse_zone("Europe/Paris")) == date(2026, 7, 2)
    assert local_clock_at(there, parse_zone("Europe/Paris")) == time(9, 30)


def test_the_ends_of_the_calendar_have_no_instant_rather_than_an_error() -> None:
    assert resolve(date.max, time(23), parse_zone("America/Los_Angeles")) is None
    assert resolve(date.min, time(0), parse_zone("Asia/Tokyo")) is None
    assert resolve(date.max, time(23), parse_zone("UTC")) is not None
