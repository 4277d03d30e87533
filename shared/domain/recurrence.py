"""The local dates on which a reminder recurs.

A rule is never walked from its start: whether a date belongs to it follows from the date itself and from its
period (day, week, month or year), counted from the anchor. So the work depends on the window alone, not on
how long ago the reminder began nor on how seldom, if ever, its rule matches. Only ``COUNT`` has to count.
"""

from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import MAXYEAR, date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from dateutil import rrule

from shared.domain.rule_parts import BadRecurrence, Frequency, RuleParts, parse_rule

__all__ = ["BadRecurrence", "Recurrence", "parse_recurrence"]

_DAY: Final = timedelta(days=1)
_MONTHS: Final = 12
_WEEK: Final = 7
_MOST_IN_A_MONTH: Final = 5
_MOST_IN_A_YEAR: Final = 53
# COUNT counts from the anchor; before this year there was nobody to remind.
_COUNTS_FROM: Final = 1970
# A step that leads out of the calendar: dateutil, which would search to the year 9999 for a rule that never
# matches, stops after one period.
_ONE_PERIOD_ONLY: Final = {Frequency.MONTHLY: _MONTHS * MAXYEAR, Frequency.YEARLY: MAXYEAR}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A rule with its anchor (DTSTART) and the inclusive bounds of its local dates."""

    parts: RuleParts
    anchor: date
    earliest: date
    latest: date

    def dates(self, first: date, last: date) -> list[date]:
        """Return, in order, the dates from ``first`` to ``last`` (both included) on which it recurs.

        Costs some microseconds for a window of days, and never depends on the distance from the anchor (COUNT
        apart, which counts once per rule and calendar year).
        """
        first, last = max(first, self.earliest), min(last, self.latest)
        count = self.parts.count
        # The n-th date is never sooner than n - 1 days after the anchor: until then no need to count.
        if count is not None and (last - self.anchor).days >= count:
            final = _date_of_count(self.parts, self.anchor, date(last.year, _MONTHS, 31))
            last = last if final is None else min(last, final)
        return list(_dates(self.parts, self.anchor, first, last))


def parse_recurrence(
    rule: str | None,
    *,
    anchor: date,
    starts_on: date | None = None,
    ends_on: date | None = None,
) -> Recurrence:
    """Return the recurrence of a reminder; no rule, or a blank one, means every day.

    ``anchor`` is the rule's DTSTART: intervals and COUNT start with it, a part that the rule leaves open (the
    day of a MONTHLY rule) is taken from it, and nothing recurs before it. The bounds are inclusive.

    Raises:
        BadRecurrence: no rule that a reminder may have; the text names the part at fault.

    """
    if rule is not None and not isinstance(rule, str):
        raise BadRecurrence(f"rule is no string but {type(rule).__name__}")
    parts = parse_rule(rule) if rule and not rule.isspace() else RuleParts()
    if parts.count is not None and anchor.year < _COUNTS_FROM:
        raise BadRecurrence(f"COUNT cannot count from a start before {_COUNTS_FROM}")
    ends = [bound for bound in (ends_on, parts.until) if bound is not None]
    return Recurrence(
        parts=_completed(parts, anchor),
        anchor=anchor,
        earliest=max(anchor, starts_on or anchor),
        latest=min(ends, default=date.max),
    )


def _completed(parts: RuleParts, anchor: date) -> RuleParts:
    """Return the rule with what it leaves open filled in from its anchor, as RFC 5545 has it."""
    if parts.weekdays or parts.ordinals or parts.month_days:
        return parts
    if parts.frequency is Frequency.WEEKLY:
        return replace(parts, weekdays=frozenset({anchor.weekday()}))
    if parts.frequency is Frequency.MONTHLY:
        return replace(parts, month_days=frozenset({anchor.day}))
    if parts.frequency is Frequency.YEARLY:
        months = parts.months or frozenset({anchor.month})
        return replace(parts, months=months, month_days=frozenset({anchor.day}))
    return parts


def _dates(parts: RuleParts, anchor: date, first: date, last: date) -> Iterator[date]:
    """Yield the dates of a completed rule from ``first`` (not before the anchor) to ``last``, COUNT apart."""
    if first > last:
        return
    # Of the one date of a day there is nothing to pick.
    picks = parts.ordinals or (parts.positions and parts.frequency is not Frequency.DAILY)
    if parts.interval == 1 and not picks:  # every period is hit: the dates alone decide
        yield from (day for day in _days(first, last) if _matches(parts, day))
        return
    for start, end in _periods(parts, anchor, first, last):
        if picks:
            yield from (day for day in _picked(parts, anchor, start, end) if first <= day <= last)
        else:
            yield from (day for day in _days(max(start, first), min(end, last)) if _matches(parts, day))


def _days(first: date, last: date) -> Iterator[date]:
    return map(date.fromordinal, range(first.toordinal(), last.toordinal() + 1))


def _matches(parts: RuleParts, day: date) -> bool:
    """Tell whether a date passes the filters that look at nothing but the date."""
    if parts.weekdays and day.weekday() not in parts.weekdays:
        return False
    if parts.months and day.month not in parts.months:
        return False
    if not parts.month_days or day.day in parts.month_days:
        return True
    return day.day - 1 - monthrange(day.year, day.month)[1] in parts.month_days


def _periods(parts: RuleParts, anchor: date, first: date, last: date) -> Iterator[tuple[date, date]]:
    """Yield the (first, last) days of the periods that the interval hits and that meet the window."""
    if parts.frequency is Frequency.DAILY:
        length, origin = 1, anchor.toordinal()
    elif parts.frequency is Frequency.WEEKLY:
        length, origin = _WEEK, anchor.toordinal() - (anchor.weekday() - parts.week_start) % _WEEK
    else:
        yield from _calendar_periods(parts, anchor, first, last)
        return
    step = parts.interval * length
    # The last period of the rule's that begins no later than the window.
    begin = origin + (first.toordinal() - origin) // step * step
    for start in range(begin, last.toordinal() + 1, step):
        if start + length > first.toordinal():
            # The first week may begin before the year 1, the last may end after the year 9999.
            yield _clamped(start), _clamped(start + length - 1)


def _clamped(ordinal: int) -> date:
    return date.fromordinal(min(max(ordinal, 1), date.max.toordinal()))


def _calendar_periods(parts: RuleParts, anchor: date, first: date, last: date) -> Iterator[tuple[date, date]]:
    length = 1 if parts.frequency is Frequency.MONTHLY else _MONTHS
    origin = _month_number(anchor) // length
    step = parts.interval
    begin = origin + -((origin - _month_number(first) // length) // step) * step
    for index in range(begin, _month_number(last) // length + 1, step):
        year, month = divmod(index * length, _MONTHS)
        end_month = month + length
        yield date(year, month + 1, 1), date(year, end_month, monthrange(year, end_month)[1])


def _month_number(day: date) -> int:
    return day.year * _MONTHS + day.month - 1


def _picked(parts: RuleParts, anchor: date, start: date, end: date) -> Sequence[date]:
    """Return the dates of one period for rules with BYSETPOS or counted weekdays."""
    if parts.frequency in _ONE_PERIOD_ONLY:
        return _expanded(parts, start)
    # The first week of a rule begins with its anchor, as dateutil reads it.
    days = [day for day in _days(max(start, anchor), end) if _matches(parts, day)]
    size = len(days)
    return [day for index, day in enumerate(days) if parts.positions & {index + 1, index - size}]


def _weekdays(parts: RuleParts) -> list[rrule.weekday]:
    """Return BYDAY as dateutil understands it."""
    if not parts.ordinals:
        return [rrule.weekday(day) for day in parts.weekdays]
    within_month = parts.frequency is Frequency.MONTHLY or parts.months
    # dateutil fails on a weekday counted further than the month or year can hold.
    most = _MOST_IN_A_MONTH if within_month else _MOST_IN_A_YEAR
    counted = {(n, day) for n, day in parts.ordinals if abs(n) <= most}
    # It intersects plain and counted weekdays where RFC 5545 means both: count the plain ones too.
    counted |= {(n, day) for day in parts.weekdays for n in range(1, most + 1)}
    return [rrule.weekday(day)(n) for n, day in sorted(counted)]


@lru_cache(maxsize=4096)
def _expanded(parts: RuleParts, start: date) -> tuple[date, ...]:
    """Return all dates of the month or year that begins with ``start``, anchors and bounds apart."""
    weekdays = _weekdays(parts)
    if parts.ordinals and not weekdays:
        return ()
    found = rrule.rrule(
        rrule.MONTHLY if parts.frequency is Frequency.MONTHLY else rrule.YEARLY,
        dtstart=datetime.combine(start, time()),
        interval=_ONE_PERIOD_ONLY[parts.frequency],
        bymonth=sorted(parts.months) or None,
        bymonthday=sorted(parts.month_days) or None,
        byweekday=weekdays or None,
        bysetpos=sorted(parts.positions) or None,
    )
    return tuple(instant.date() for instant in found)


@lru_cache(maxsize=4096)
def _date_of_count(parts: RuleParts, anchor: date, through: date) -> date | None:
    """Return the date with which COUNT is used up; ``None`` if it is not by ``through``."""
    if parts.count is None:
        return None
    days = _dates(parts, anchor, anchor, through)
    return next((day for number, day in enumerate(days, start=1) if number == parts.count), None)
