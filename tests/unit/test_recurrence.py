"""Recurrence against worked examples, against dateutil where it can be asked, and a naive calendar."""

import itertools
import time
import warnings
from calendar import monthrange
from datetime import date, timedelta

import pytest
from dateutil import rrule
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from shared.domain.recurrence import BadRecurrence, parse_recurrence
from shared.domain.rule_parts import parse_rule

DAY = timedelta(days=1)
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
ANCHOR = date(2026, 1, 14)  # a Wednesday


def recurs(rule: str | None, first: str, last: str, anchor: date = ANCHOR) -> list[str]:
    found = parse_recurrence(rule, anchor=anchor).dates(date.fromisoformat(first), date.fromisoformat(last))
    return [day.isoformat() for day in found]


@pytest.mark.parametrize("rule", [None, "", "  ", "FREQ=DAILY", "freq=daily", "RRULE:FREQ=DAILY", " rrule:Freq=Daily "])
def test_without_a_rule_every_day(rule: str | None) -> None:
    assert recurs(rule, "2026-02-27", "2026-03-01") == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert recurs(rule, "2026-01-01", "2026-01-15") == ["2026-01-14", "2026-01-15"]
    assert recurs(rule, "2026-03-02", "2026-03-01") == []


@pytest.mark.parametrize(
    ("rule", "first", "last", "expected"),
    [
        ("FREQ=DAILY;INTERVAL=2", "2026-01-10", "2026-01-19", ["2026-01-14", "2026-01-16", "2026-01-18"]),
        (
            "FREQ=DAILY;BYDAY=SA,SU",
            "2026-01-14",
            "2026-01-25",
            ["2026-01-17", "2026-01-18", "2026-01-24", "2026-01-25"],
        ),
        (
            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=-1",
            "2026-01-14",
            "2028-12-31",
            ["2026-02-28", "2027-02-28", "2028-02-29"],
        ),
        ("FREQ=WEEKLY", "2026-01-14", "2026-01-28", ["2026-01-14", "2026-01-21", "2026-01-28"]),
        ("FREQ=WEEKLY;BYDAY=MO,WE", "2026-01-12", "2026-01-20", ["2026-01-14", "2026-01-19"]),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE",
            "2026-01-12",
            "2026-01-28",
            ["2026-01-14", "2026-01-26", "2026-01-28"],
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE;WKST=SU",
            "2026-01-14",
            "2026-01-28",
            ["2026-01-14", "2026-01-25", "2026-01-28"],
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE;WKST=MO",
            "2026-01-14",
            "2026-01-28",
            ["2026-01-14", "2026-01-18", "2026-01-28"],
        ),
        (
            "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=-1",
            "2026-01-14",
            "2026-01-31",
            ["2026-01-16", "2026-01-23", "2026-01-30"],
        ),
        ("FREQ=MONTHLY", "2026-01-01", "2026-03-31", ["2026-01-14", "2026-02-14", "2026-03-14"]),
        (
            "FREQ=MONTHLY;BYMONTHDAY=31",
            "2026-01-14",
            "2026-06-30",
            ["2026-01-31", "2026-03-31", "2026-05-31"],
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=-1",
            "2026-01-14",
            "2026-04-30",
            ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30"],
        ),
        ("FREQ=MONTHLY;BYDAY=-1FR", "2026-01-14", "2026-03-31", ["2026-01-30", "2026-02-27", "2026-03-27"]),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
            "2026-01-14",
            "2026-12-31",
            ["2026-02-13", "2026-03-13", "2026-11-13"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            "2026-01-14",
            "2026-03-31",
            ["2026-01-30", "2026-02-27", "2026-03-31"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,1FR",
            "2026-02-01",
            "2026-02-28",
            ["2026-02-02", "2026-02-06", "2026-02-09", "2026-02-16", "2026-02-23"],
        ),
        (
            "FREQ=MONTHLY;INTERVAL=5",
            "2026-01-01",
            "2027-05-01",
            ["2026-01-14", "2026-06-14", "2026-11-14", "2027-04-14"],
        ),
        ("FREQ=YEARLY", "2026-01-01", "2028-12-31", ["2026-01-14", "2027-01-14", "2028-01-14"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "2026-01-14", "2033-01-01", ["2028-02-29", "2032-02-29"]),
        (
            "FREQ=YEARLY;BYMONTHDAY=1;BYMONTH=5,12",
            "2026-01-14",
            "2027-12-31",
            ["2026-05-01", "2026-12-01", "2027-05-01", "2027-12-01"],
        ),
        ("FREQ=YEARLY;BYDAY=1MO", "2026-01-14", "2028-12-31", ["2027-01-04", "2028-01-03"]),
        ("FREQ=YEARLY;BYDAY=53TH", "2026-01-14", "2032-12-31", ["2026-12-31", "2032-12-30"]),
        ("FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3,10", "2026-01-14", "2026-12-31", ["2026-03-29", "2026-10-25"]),
        ("FREQ=YEARLY;BYDAY=SU;BYSETPOS=-1", "2026-01-14", "2027-12-31", ["2026-12-27", "2027-12-26"]),
        ("FREQ=YEARLY;INTERVAL=9999", "2026-01-01", "2400-01-01", ["2026-01-14"]),
        ("FREQ=DAILY;COUNT=3", "2026-01-01", "2026-03-01", ["2026-01-14", "2026-01-15", "2026-01-16"]),
        ("FREQ=DAILY;COUNT=3", "2026-01-16", "2026-01-16", ["2026-01-16"]),
        ("FREQ=DAILY;COUNT=3", "2026-01-17", "2026-01-17", []),
        (
            "FREQ=WEEKLY;BYDAY=MO,WE;COUNT=3",
            "2026-01-01",
            "2026-03-01",
            ["2026-01-14", "2026-01-19", "2026-01-21"],
        ),
        ("FREQ=MONTHLY;BYDAY=1MO;COUNT=2", "2026-03-01", "2027-03-01", ["2026-03-02"]),
        ("FREQ=DAILY;UNTIL=20260115", "2026-01-01", "2026-03-01", ["2026-01-14", "2026-01-15"]),
        ("FREQ=DAILY;UNTIL=20260115T000000", "2026-01-01", "2026-03-01", ["2026-01-14", "2026-01-15"]),
        ("FREQ=DAILY;UNTIL=20260115T235959Z", "2026-01-01", "2026-03-01", ["2026-01-14", "2026-01-15"]),
        ("FREQ=DAILY;UNTIL=20250101", "2026-01-01", "2026-03-01", []),
    ],
)
def test_worked_examples(rule: str, first: str, last: str, expected: list[str]) -> None:
    assert recurs(rule, first, last) == expected


def test_bounds_are_inclusive_and_do_not_move_the_phase() -> None:
    bounded = parse_recurrence(
        "FREQ=DAILY;INTERVAL=2",
        anchor=ANCHOR,
        starts_on=date(2026, 1, 17),
        ends_on=date(2026, 1, 20),
    )
    assert bounded.dates(date(2026, 1, 1), date(2026, 2, 1)) == [date(2026, 1, 18), date(2026, 1, 20)]
    earlier = parse_recurrence(None, anchor=ANCHOR, starts_on=ANCHOR - 9 * DAY, ends_on=ANCHOR)
    assert earlier.dates(date(2026, 1, 1), date(2026, 2, 1)) == [ANCHOR]
    never = parse_recurrence(None, anchor=ANCHOR, ends_on=ANCHOR - DAY)
    assert never.dates(date(2026, 1, 1), date(2026, 2, 1)) == []
    until = parse_recurrence("FREQ=DAILY;UNTIL=20260116", anchor=ANCHOR, ends_on=date(2026, 1, 15))
    assert until.dates(date(2026, 1, 1), date(2026, 2, 1)) == [ANCHOR, ANCHOR + DAY]


def test_count_counts_dates_that_lie_before_the_start_bound() -> None:
    bounded = parse_recurrence("FREQ=DAILY;COUNT=3", anchor=ANCHOR, starts_on=ANCHOR + 2 * DAY)
    assert bounded.dates(date(2026, 1, 1), date(2026, 2, 1)) == [ANCHOR + 2 * DAY]


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        ("BYDAY=MO", "FREQ"),
        ("FREQ=", "FREQ"),
        ("FREQ=HOURLY", "FREQ"),
        ("FREQ=SECONDLY;COUNT=1", "FREQ"),
        ("FREQ=FORTNIGHTLY", "FREQ"),
        ("FREQ=DAILY;FREQ=DAILY", "FREQ"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=1.5", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=10000", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=" + "9" * 400, "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=\u0662", "INTERVAL"),
        ("FREQ=DAILY;INTERVAL=1_0", "INTERVAL"),
        ("FREQ=DAILY;COUNT=0", "COUNT"),
        ("FREQ=DAILY;COUNT=", "COUNT"),
        ("FREQ=DAILY;COUNT=1;UNTIL=20270101", "COUNT"),
        ("FREQ=DAILY;UNTIL=2027-01-01", "UNTIL"),
        ("FREQ=DAILY;UNTIL=20270230", "UNTIL"),
        ("FREQ=DAILY;UNTIL=00000101", "UNTIL"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL"),
        ("FREQ=WEEKLY;BYDAY=XX", "BYDAY"),
        ("FREQ=WEEKLY;BYDAY=MO,", "BYDAY"),
        ("FREQ=WEEKLY;BYDAY=1MO", "BYDAY"),
        ("FREQ=DAILY;BYDAY=-1FR", "BYDAY"),
        ("FREQ=MONTHLY;BYDAY=0MO", "BYDAY"),
        ("FREQ=YEARLY;BYDAY=54MO", "BYDAY"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY"),
        ("FREQ=MONTHLY;BYMONTHDAY=32", "BYMONTHDAY"),
        ("FREQ=MONTHLY;BYMONTHDAY=-32", "BYMONTHDAY"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=-30,31", "BYMONTHDAY"),
        ("FREQ=DAILY;BYMONTH=4,6,9,11;BYMONTHDAY=31", "BYMONTHDAY"),
        ("FREQ=YEARLY;BYMONTH=0", "BYMONTH"),
        ("FREQ=YEARLY;BYMONTH=13", "BYMONTH"),
        ("FREQ=YEARLY;BYMONTH=-1", "BYMONTH"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", "BYSETPOS"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=367", "BYSETPOS"),
        ("FREQ=MONTHLY;BYSETPOS=1", "BYSETPOS"),
        ("FREQ=DAILY;BYDAY=MO;BYSETPOS=2", "BYSETPOS"),
        ("FREQ=DAILY;WKST=1", "WKST"),
        ("FREQ=DAILY;BYHOUR=9", "BYHOUR"),
        ("FREQ=DAILY;BYEASTER=0", "BYEASTER"),
        ("FREQ=YEARLY;BYWEEKNO=1", "BYWEEKNO"),
        ("FREQ=YEARLY;BYYEARDAY=1", "BYYEARDAY"),
        ("DTSTART:20260101T090000\nRRULE:FREQ=DAILY", "DTSTART"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260101", "EXDATE"),
        ("RRULE:RRULE:FREQ=DAILY", "RRULE"),
        ("EXRULE:FREQ=DAILY", "EXRULE"),
        ("FREQ=DAILY;", "part"),
        (";", "part"),
        ("every day", "EVERY DAY"),
        ("0 9 * * *", "0 9"),
        ("FREQ=DAILY;X=" + "x" * 500, "500"),
    ],
)
def test_what_a_reminder_may_not_have_is_refused_by_the_name_of_the_part(rule: str, part: str) -> None:
    with pytest.raises(BadRecurrence) as refused:
        parse_recurrence(rule, anchor=ANCHOR)
    assert part in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("rule", [0, True, b"FREQ=DAILY", ["FREQ=DAILY"], {"freq": "DAILY"}])
def test_a_rule_that_is_no_text_is_refused(rule: object) -> None:
    with pytest.raises(BadRecurrence):
        parse_recurrence(rule, anchor=ANCHOR)  # type: ignore[arg-type]


def test_a_count_from_before_anybody_had_a_telephone_is_refused() -> None:
    with pytest.raises(BadRecurrence, match="COUNT"):
        parse_recurrence("FREQ=DAILY;COUNT=3", anchor=date(1, 1, 1))


def test_anchors_and_windows_at_the_ends_of_the_calendar() -> None:
    assert recurs("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU", "0001-01-01", "0001-01-10", date(1, 1, 1)) == ["0001-01-07"]
    assert recurs("FREQ=WEEKLY;BYDAY=MO,FR;BYSETPOS=1", "9999-12-20", "9999-12-31") == [
        "9999-12-20",
        "9999-12-27",
    ]
    assert recurs("FREQ=YEARLY;BYDAY=-1FR", "9999-12-01", "9999-12-31") == ["9999-12-31"]
    assert recurs("FREQ=MONTHLY;BYDAY=SU,MO;BYSETPOS=-1", "9999-12-01", "9999-12-31") == ["9999-12-27"]


# Rules made of the allow-list, and two referees.


@st.composite
def rules(draw: st.DrawFn, counted_weekdays_up_to: int = 5) -> str:
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    long = frequency in {"MONTHLY", "YEARLY"}
    given_parts = {"FREQ": frequency}

    def listed(values: st.SearchStrategy[object], most: int) -> str:
        return ",".join(map(str, draw(st.lists(values, min_size=1, max_size=most, unique=True))))

    if draw(st.booleans()):
        given_parts["INTERVAL"] = str(draw(st.sampled_from([1, 2, 3, 5, 12, 40])))
    if draw(st.booleans()):
        numbers = [n for n in range(-counted_weekdays_up_to, counted_weekdays_up_to + 1) if n]
        prefixes = st.sampled_from(numbers).map(str) if long and draw(st.booleans()) else st.just("")
        given_parts["BYDAY"] = listed(st.tuples(prefixes, st.sampled_from(WEEKDAYS)).map("".join), 5)
    if frequency != "WEEKLY" and draw(st.booleans()):
        given_parts["BYMONTHDAY"] = listed(st.sampled_from([*range(1, 32), *range(-31, 0)]), 6)
    if draw(st.integers(0, 2)) == 0:
        given_parts["BYMONTH"] = listed(st.integers(1, 12), 5)
    if {"BYDAY", "BYMONTHDAY", "BYMONTH"} & set(given_parts) and draw(st.booleans()):
        most = {"DAILY": 1, "WEEKLY": 3, "MONTHLY": 8, "YEARLY": 60}[frequency]
        given_parts["BYSETPOS"] = listed(st.integers(1, most).flatmap(lambda n: st.sampled_from([n, -n])), 3)
    if draw(st.integers(0, 3)) == 0:
        given_parts["WKST"] = draw(st.sampled_from(WEEKDAYS))
    if draw(st.integers(0, 3)) == 0:
        given_parts["COUNT"] = str(draw(st.integers(1, 60)))
    return ";".join(f"{name}={value}" for name, value in given_parts.items())


ANCHORS = st.dates(date(2019, 1, 1), date(2024, 12, 31))


def accepted(rule: str, anchor: date) -> bool:
    try:
        parse_recurrence(rule, anchor=anchor)
    except BadRecurrence as refused:
        return "no month of BYMONTH" not in str(refused)
    return True


@given(rule=rules(), anchor=ANCHORS, offset=st.integers(-30, 1500), length=st.integers(0, 500))
@example(rule="FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", anchor=date(2024, 1, 2), offset=-5, length=60)
@example(rule="FREQ=WEEKLY;INTERVAL=2;BYDAY=SU;WKST=SU", anchor=date(2024, 1, 2), offset=-5, length=60)
@example(rule="FREQ=MONTHLY", anchor=date(2024, 1, 31), offset=0, length=400)
@example(rule="FREQ=YEARLY", anchor=date(2024, 2, 29), offset=0, length=1500)
@settings(derandomize=True, deadline=None, max_examples=250)
def test_the_same_dates_as_dateutil_finds_from_the_start(rule: str, anchor: date, offset: int, length: int) -> None:
    assume(accepted(rule, anchor))
    recurrence = parse_recurrence(rule, anchor=anchor)
    first = anchor + offset * DAY
    last = first + length * DAY
    # dateutil searches to the year 9999 if nothing comes after the window: ask it only where something does.
    endless = parse_recurrence(";".join(part for part in rule.split(";") if "COUNT" not in part), anchor=anchor)
    assume(endless.dates(last + DAY, last + 9000 * DAY))
    with warnings.catch_warnings(action="ignore"):
        whole = rrule.rrulestr(rule, dtstart=rrule.datetime.datetime.combine(anchor, rrule.datetime.time()))
    up_to = itertools.takewhile(lambda day: day <= last, (at.date() for at in whole))
    assert recurrence.dates(first, last) == [day for day in up_to if day >= first]


def naive_dates(rule: str, anchor: date, last: date) -> list[date]:
    """Read a rule as RFC 5545 words it, a whole period at a time, with no thought of speed."""
    given_parts = dict(part.split("=") for part in rule.split(";"))
    frequency, interval = given_parts["FREQ"], int(given_parts.get("INTERVAL", 1))
    numbers = {
        name: [int(n) for n in value.split(",")]
        for name, value in given_parts.items()
        if "MONTH" in name or "POS" in name
    }
    first_weekday = WEEKDAYS.index(given_parts.get("WKST", "MO"))
    by_day = [(text[:-2], WEEKDAYS.index(text[-2:])) for text in given_parts.get("BYDAY", "").split(",") if text]

    def period(day: date) -> int:
        week = (day.toordinal() - 1 - first_weekday) // 7
        return {
            "DAILY": day.toordinal(),
            "WEEKLY": week,
            "MONTHLY": day.year * 12 + day.month,
            "YEARLY": day.year,
        }[frequency]

    def weekday_fits(day: date) -> bool:
        in_month = frequency == "MONTHLY" or "BYMONTH" in numbers
        start = day.replace(day=1) if in_month else day.replace(month=1, day=1)
        end = day.replace(day=monthrange(day.year, day.month)[1]) if in_month else day.replace(month=12, day=31)
        counts = {"", str((day - start).days // 7 + 1), str(-((end - day).days // 7) - 1)}
        return any(day.weekday() == weekday and prefix.lstrip("+") in counts for prefix, weekday in by_day)

    def fits(day: date) -> bool:
        if by_day and not weekday_fits(day):
            return False
        if "BYMONTH" in numbers and day.month not in numbers["BYMONTH"]:
            return False
        if "BYMONTHDAY" in numbers:
            left = monthrange(day.year, day.month)[1] - day.day
            return day.day in numbers["BYMONTHDAY"] or -left - 1 in numbers["BYMONTHDAY"]
        if by_day:
            return True
        same_month = frequency != "YEARLY" or "BYMONTH" in numbers or day.month == anchor.month
        same_day = {"DAILY": True, "WEEKLY": day.weekday() == anchor.weekday()}.get(frequency, day.day == anchor.day)
        return same_month and same_day

    # A week is counted from the anchor on, months and years as a whole.
    begin = anchor if frequency in {"DAILY", "WEEKLY"} else anchor.replace(month=1, day=1)
    days = (date.fromordinal(n) for n in range(begin.toordinal(), last.toordinal() + 400))
    found: list[date] = []
    for index, members in itertools.groupby(days, key=period):
        chosen = [day for day in members if fits(day)] if (index - period(anchor)) % interval == 0 else []
        if "BYSETPOS" in numbers:
            places = {n - 1 if n > 0 else len(chosen) + n for n in numbers["BYSETPOS"]}
            chosen = [day for place, day in enumerate(chosen) if place in places]
        found += [day for day in chosen if day >= anchor]
    return [day for day in found[: int(given_parts.get("COUNT", len(found)))] if day <= last]


@given(
    rule=rules(counted_weekdays_up_to=53),
    anchor=ANCHORS,
    offset=st.integers(-30, 900),
    length=st.integers(0, 500),
)
@example(rule="FREQ=MONTHLY;BYDAY=MO,1FR", anchor=date(2024, 1, 31), offset=0, length=400)
@example(rule="FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=1", anchor=date(2024, 1, 31), offset=0, length=400)
@example(rule="FREQ=MONTHLY;BYDAY=53TH", anchor=date(2024, 1, 31), offset=0, length=400)
@example(rule="FREQ=YEARLY;BYDAY=53WE,MO;BYMONTHDAY=31,1,-2", anchor=date(2024, 1, 31), offset=0, length=400)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_the_same_dates_as_a_plain_reading_of_the_standard(rule: str, anchor: date, offset: int, length: int) -> None:
    assume(accepted(rule, anchor))
    first = anchor + offset * DAY
    last = first + length * DAY
    expected = [day for day in naive_dates(rule, anchor, last) if day >= first]
    assert parse_recurrence(rule, anchor=anchor).dates(first, last) == expected


@given(rule=rules(counted_weekdays_up_to=53), anchor=ANCHORS, cuts=st.lists(st.integers(0, 300), max_size=6))
@settings(derandomize=True, deadline=None, max_examples=150)
def test_windows_laid_side_by_side_give_what_one_window_gives(rule: str, anchor: date, cuts: list[int]) -> None:
    assume(accepted(rule, anchor))
    recurrence = parse_recurrence(rule, anchor=anchor)
    edges = [0, *sorted(cuts), 301]
    pieces = [
        recurrence.dates(anchor + start * DAY, anchor + (end - 1) * DAY) for start, end in itertools.pairwise(edges)
    ]
    assert [day for piece in pieces for day in piece] == recurrence.dates(anchor, anchor + 300 * DAY)


# What hangs or crawls elsewhere. The bound is loose: a search to the year 9999 takes seconds.
SLOWEST_SECONDS = 0.5


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=MONTHLY;BYDAY=5MO;BYMONTHDAY=1",
        "FREQ=MONTHLY;BYDAY=MO;BYMONTHDAY=1;BYSETPOS=2",
        "FREQ=MONTHLY;BYDAY=53MO",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;INTERVAL=9999",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;INTERVAL=7",
        "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1;BYSETPOS=2",
        "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366,-366;COUNT=9999999",
        "FREQ=MONTHLY;BYDAY=MO,2TU,-1WE,TH,5FR,SA,-5SU;BYSETPOS=-1;COUNT=9999999",
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=7;COUNT=9999999",
        "FREQ=DAILY;INTERVAL=2",
        "FREQ=DAILY;INTERVAL=7;BYDAY=FR;COUNT=1",  # from a Thursday: never
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;COUNT=5",
        "FREQ=DAILY;COUNT=20000",
    ],
)
def test_no_rule_is_slow_however_long_ago_it_began(rule: str) -> None:
    started = time.process_time()
    recurrence = parse_recurrence(rule, anchor=date(1970, 1, 1))
    for year in (1970, 2026, 2090):
        recurrence.dates(date(year, 6, 1), date(year, 6, 3))
    assert time.process_time() - started < SLOWEST_SECONDS


def test_rules_without_count_cost_the_same_a_thousand_years_on() -> None:
    for rule in (
        "FREQ=DAILY;INTERVAL=2",
        "FREQ=WEEKLY;INTERVAL=3;BYDAY=TU",
        "FREQ=MONTHLY;INTERVAL=5;BYDAY=1TU",
    ):
        recurrence = parse_recurrence(rule, anchor=date(1, 1, 1))
        started = time.process_time()
        for day in range(200):
            recurrence.dates(date(9000, 1, 1) + day * DAY, date(9000, 1, 3) + day * DAY)
        assert time.process_time() - started < SLOWEST_SECONDS, rule


def test_a_rule_is_read_once() -> None:
    assert parse_rule("FREQ=WEEKLY;BYDAY=MO") is parse_rule("FREQ=WEEKLY;BYDAY=MO")
