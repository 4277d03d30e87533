"""Wall-clock time in a zone, turned into instants and back.

The rules, for every zone and date: a time that a clock change skips moves forward by the length of the gap,
even over midnight; of a time that happens twice the first counts; a date that a zone skipped has no instant.
Dates are what is iterated, and each is resolved by itself: stepping by 24 hours goes wrong twice a year.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOCK: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_DAY: Final = timedelta(days=1)
_NOTHING: Final = timedelta(0)
_TICK: Final = timedelta(microseconds=1)
_SECOND: Final = timedelta(seconds=1)


class BadLocalTime(ValueError):
    """A text that is no wall-clock time."""


def parse_local_time(text: object) -> time:
    """Return the time that ``HH:MM`` names, on a 24-hour clock.

    Strict, because the text is part of the key under which an occurrence is known: ``9:00``, ``09:00:00``,
    `` 09:00`` and ``24:00`` would be second spellings of a time, and are refused.

    Raises:
        BadLocalTime: anything else than two digits, a colon and two digits between 00:00 and 23:59.

    """
    if not isinstance(text, str):
        raise BadLocalTime(f"no HH:MM time between 00:00 and 23:59: {type(text).__name__}")
    return _parse_clock(text)


@lru_cache(maxsize=2048)
def _parse_clock(text: str) -> time:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise BadLocalTime(f"no HH:MM time between 00:00 and 23:59: {text[:20]!a}")
    return time(int(found[1]), int(found[2]))


def resolve(local_date: date, local_time: time, zone: tzinfo) -> datetime | None:
    """Return the one instant, in UTC, at which this local date and time happen in the zone.

    In a gap the offset before it is used, which moves the time forward by exactly the length of the gap; in a
    fold the offset of the first pass is. ``None`` if the date does not exist there (Apia 2011-12-30) or its
    instant lies outside the years 1 to 9999.
    """
    if local_time.fold:
        local_time = local_time.replace(fold=0)
    before = datetime.combine(local_date, local_time, zone).utcoffset()
    if before is None:
        raise ValueError("the zone has no offset from UTC")
    try:
        instant = datetime.combine(local_date, local_time, UTC) - before
        landed_on = instant.astimezone(zone).date()
    except OverflowError:
        return None
    # Another date on the wall means a gap over midnight, or one that swallows the date.
    return instant if landed_on == local_date or _exists(local_date, zone) else None


def local_date_at(instant: datetime, zone: tzinfo) -> date:
    """Return the date on the wall at an (aware) instant."""
    return _local(instant, zone).date()


def local_clock_at(instant: datetime, zone: tzinfo) -> time:
    """Return the naive time on the wall at an (aware) instant, in full precision."""
    return _local(instant, zone).time().replace(fold=0)


def day_bounds(local_date: date, zone: tzinfo) -> tuple[datetime, datetime] | None:
    """Return the UTC instants ``[start, end)`` of a local date; ``None`` if the zone skipped it.

    ``start`` is the first instant that bears the date, ``end`` the start of the next date: the days of a zone
    follow one another without hole or overlap. Where clocks went back over midnight from *after* it (in
    St. John's once from 00:01 to 23:01) the repeated part of the old date lies within the new one.
    """
    start = _start(local_date, zone)
    if local_date_at(start, zone) != local_date:
        return None
    return start, _start(local_date + _DAY, zone)


def candidate_dates(start: datetime, end: datetime, zone: tzinfo) -> "Iterator[date]":
    """Yield, in order, every local date some time of which can resolve into ``[start, end)``, or a few more.

    The date before that of ``start`` is among them only where clocks went forward less than a day ago and may
    have shifted its late evening over midnight, the one after that of ``end`` only where they went back.
    """
    if end <= start:
        return
    day = local_date_at(start, zone)
    if _offset(start - _DAY, zone) < _offset(start, zone):
        day -= _DAY
    last = end - _TICK
    offset = max(_offset(last, zone), _offset(max(start, last - _DAY), zone))
    last_day = (last.astimezone(UTC) + offset).date()
    while day <= last_day:
        yield day
        day += _DAY


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return _local(instant, zone).utcoffset() or _NOTHING


def _local(instant: datetime, zone: tzinfo) -> datetime:
    if instant.tzinfo is None:
        # astimezone() would silently take the zone of the machine.
        raise ValueError("an instant needs its offset from UTC")
    return instant.astimezone(zone)


def _exists(local_date: date, zone: tzinfo) -> bool:
    return local_date_at(_start(local_date, zone), zone) == local_date


def _start(local_date: date, zone: tzinfo) -> datetime:
    """Return the first instant whose local time is at or after midnight of the date.

    That is midnight itself, or, where midnight is skipped, the clock change that skips it.
    """
    midnight = datetime.combine(local_date, time(), zone)
    before, after = midnight.utcoffset(), midnight.replace(fold=1).utcoffset()
    if before is None or after is None:
        raise ValueError("the zone has no offset from UTC")
    naive = midnight.replace(tzinfo=UTC)
    if after <= before:
        return naive - before
    early, late = naive - after, naive - before
    while late - early > _SECOND:  # the change lies in (early, late]
        middle = early + (late - early) // (2 * _SECOND) * _SECOND
        if _local(middle, zone).replace(tzinfo=UTC) >= naive:
            late = middle
        else:
            early = middle
    return late
