import copy
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.domain.zones import BadTimezone, parse_zone, tzdata_version, zone_names

JULY = datetime(2026, 7, 1)  # noqa: DTZ001 - a wall time


def offset_hours(name: object) -> float:
    offset = parse_zone(name).utcoffset(JULY)
    assert offset is not None
    return offset / timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("Europe/Paris", 2),
        ("  europe/PARIS ", 2),
        ("\tEUROPE/paris\n", 2),
        ("US/Pacific", -7),
        ("Asia/Calcutta", 5.5),
        ("america/argentina/buenos_aires", -3),
        ("EST5EDT", -4),
        ("UTC", 0),
        ("utc", 0),
        ("GMT", 0),
        ("Z", 0),
        ("z", 0),
        ("Zulu", 0),
        ("GMT0", 0),
        ("Etc/GMT-3", 3),
        ("Etc/GMT+5", -5),
        ("etc/gmt+5", -5),
        ("GMT+5", 5),
        ("GMT+02:00", 2),
        ("GMT-02:00", -2),
        ("UTC+05:30", 5.5),
        ("utc-3", -3),
        ("UT+1", 1),
        ("GMT+0200", 2),
        ("+0530", 5.5),
        ("+05:45", 5.75),
        ("-03:30", -3.5),
        ("+14", 14),
        ("+18:00", 18),
        ("-00:00", 0),
    ],
)
def test_names_that_phones_send(name: str, hours: float) -> None:
    assert offset_hours(name) == hours


@pytest.mark.parametrize(
    "name",
    [
        "",
        "   ",
        "Mars/Olympus_Mons",
        "Europe",
        "Europe/",
        "/Europe/Paris",
        "Europe//Paris",
        "Europe/Paris.",
        "../zoneinfo/Europe/Paris",
        "Europe/../Europe/Paris",
        "/etc/localtime",
        "localtime",
        "posix/Europe/Paris",
        "right/UTC",
        "posixrules",
        "zone.tab",
        "tzdata.zi",
        "__init__.py",
        "Factory",
        "Europe/Paris\x00",
        "\x00",
        "\ud800",
        "GMT+",
        "GMT+1:5",
        "GMT+530",
        "+18:01",
        "-19",
        "+05:60",
        "+\u0660\u0665:\u0663\u0660",
        "05:30",
        "CET-1CEST",
        "Europe/Paris" * 1000,
        None,
        1,
        True,
        b"Europe/Paris",
        ["Europe/Paris"],
    ],
)
def test_what_is_no_zone_is_refused_in_few_words(name: object) -> None:
    with pytest.raises(BadTimezone) as refused:
        parse_zone(name)
    reason = str(refused.value)
    assert reason.isprintable()
    assert 10 < len(reason) < 160


def test_every_zone_of_the_package_can_be_read_in_any_case_and_is_one_object() -> None:
    names = zone_names()
    assert len(names) > 590
    for name in names:
        assert parse_zone(name.swapcase()) is parse_zone(name)
        assert parse_zone(name).utcoffset(JULY) is not None


@given(name=st.one_of(st.sampled_from(zone_names()), st.from_regex(r"\A(GMT|UTC|)[+-](0[0-9]|1[0-7]):[0-5][0-9]\Z")))
@example(name="GMT+00:00")
@settings(derandomize=True, deadline=None, max_examples=150)
def test_the_text_of_a_zone_names_it_again(name: str) -> None:
    zone = parse_zone(name)
    again = parse_zone(str(zone))
    for month in (1, 7):
        at = datetime(2026, month, 1, tzinfo=UTC)
        assert at.astimezone(again).utcoffset() == at.astimezone(zone).utcoffset()


@given(name=st.text(max_size=80) | st.binary(max_size=5) | st.integers() | st.none())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_text_does_worse_than_be_refused(name: object) -> None:
    try:
        zone = parse_zone(name)
    except BadTimezone as refused:
        assert len(str(refused)) < 400  # noqa: PT017 - either way out is fine
    else:
        assert zone.utcoffset(JULY) is not None


def test_the_version_is_that_of_the_data() -> None:
    version = tzdata_version()
    assert version[:4].isdecimal()
    assert version[4:].isalpha()
    # Rules that came with 2026c: no more summer time in Morocco from the autumn on.
    assert version >= "2026c"
    assert parse_zone("Africa/Casablanca").utcoffset(datetime(2026, 12, 1)) == timedelta(0)  # noqa: DTZ001


def test_a_time_in_a_zone_survives_a_shallow_copy() -> None:
    at = datetime(2026, 7, 1, 9, tzinfo=parse_zone("Europe/Paris"))
    assert copy.copy(at) == at
