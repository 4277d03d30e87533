"""The text of a recurrence rule, read and checked part by part before anything is made of it.

The subset of RFC 5545's RRULE that a reminder may have. What comes out is sound: every number lies in its
range, every combination is one that the RFC allows; and no text, however long or odd, is costly to refuse.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import lru_cache
from typing import Final

_LONGEST_RULE: Final = 500
_SHOWN: Final = 40
_WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
# The longest each month can be: what no month can hold never matches.
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PARTS: Final = frozenset(
    {"FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "WKST", "COUNT", "UNTIL"},
)
_BYDAY: Final = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,7}")
_UNTIL: Final = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})(?:T[0-9]{6}Z?)?")


class BadRecurrence(ValueError):
    """A recurrence rule that is none, or none that a reminder may have; the text names the part at fault."""


class Frequency(StrEnum):
    """How long the period is within which a rule picks its dates."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    YEARLY = "YEARLY"


@dataclass(frozen=True, slots=True)
class RuleParts:
    """A checked rule: empty sets restrict nothing, weekdays count from Monday = 0.

    ``ordinals`` are counted weekdays, ``(-1, 4)`` for the last Friday.
    """

    frequency: Frequency = Frequency.DAILY
    interval: int = 1
    weekdays: frozenset[int] = frozenset()
    ordinals: frozenset[tuple[int, int]] = frozenset()
    month_days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    positions: frozenset[int] = frozenset()
    week_start: int = 0
    count: int | None = None
    until: date | None = None


@lru_cache(maxsize=4096)
def parse_rule(rule: str) -> RuleParts:
    """Return the parts of a rule text; case, surrounding blanks and a leading ``RRULE:`` do not matter.

    Raises:
        BadRecurrence: a part is unknown, repeated, out of range, or may not stand beside another one.

    """
    given = _split(rule)
    plain, ordinal = _by_day(given)
    parts = RuleParts(
        frequency=_frequency(given),
        interval=_single(given, "INTERVAL", 1, 9999) or 1,
        weekdays=plain,
        ordinals=ordinal,
        month_days=_listed(given, "BYMONTHDAY", 31, negative=True),
        months=_listed(given, "BYMONTH", 12, negative=False),
        positions=_listed(given, "BYSETPOS", 366, negative=True),
        week_start=_week_start(given),
        count=_single(given, "COUNT", 1, 9_999_999),
        until=_until(given),
    )
    _check_combination(parts)
    return parts


def _split(rule: str) -> Mapping[str, str]:
    if len(rule) > _LONGEST_RULE:
        raise BadRecurrence(f"rule is longer than {_LONGEST_RULE} characters")
    text = rule.strip().upper().removeprefix("RRULE:")
    given: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        if name not in _PARTS:
            raise BadRecurrence(f"part {_shown(name)} is unknown or not allowed in a reminder")
        if not equals or not value:
            raise BadRecurrence(f"{name} has no value")
        if name in given:
            raise BadRecurrence(f"{name} is given twice")
        given[name] = value
    return given


def _frequency(given: Mapping[str, str]) -> Frequency:
    value = given.get("FREQ")
    if value is None:
        raise BadRecurrence("FREQ is missing")
    if value not in Frequency.__members__:
        raise BadRecurrence(f"FREQ {_shown(value)} is none of {', '.join(Frequency)}")
    return Frequency(value)


def _number(name: str, text: str, least: int, most: int) -> int:
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise BadRecurrence(f"{name} {_shown(text)} is no number from {least} to {most}")
    return int(text)


def _single(given: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    return _number(name, given[name], least, most) if name in given else None


def _listed(given: Mapping[str, str], name: str, most: int, *, negative: bool) -> frozenset[int]:
    if name not in given:
        return frozenset()
    least = -most if negative else 1
    numbers = frozenset(_number(name, text, least, most) for text in given[name].split(","))
    if 0 in numbers:
        raise BadRecurrence(f"{name} counts from 1 or from -1, never 0")
    return numbers


def _by_day(given: Mapping[str, str]) -> tuple[frozenset[int], frozenset[tuple[int, int]]]:
    plain: set[int] = set()
    ordinal: set[tuple[int, int]] = set()
    for text in given["BYDAY"].split(",") if "BYDAY" in given else ():
        found = _BYDAY.fullmatch(text)
        if found is None:
            raise BadRecurrence(f"BYDAY {_shown(text)} is no weekday such as MO or -1FR")
        weekday = _WEEKDAYS.index(found[2])
        if found[1] is None:
            plain.add(weekday)
        elif 1 <= abs(int(found[1])) <= 53:  # noqa: PLR2004 - weeks of a year
            ordinal.add((int(found[1]), weekday))
        else:
            raise BadRecurrence(f"BYDAY {_shown(text)} counts from 1 to 53 or from -1 to -53")
    return frozenset(plain), frozenset(ordinal)


def _week_start(given: Mapping[str, str]) -> int:
    value = given.get("WKST", "MO")
    if value not in _WEEKDAYS:
        raise BadRecurrence(f"WKST {_shown(value)} is no weekday such as MO")
    return _WEEKDAYS.index(value)


def _until(given: Mapping[str, str]) -> date | None:
    if "UNTIL" not in given:
        return None
    found = _UNTIL.fullmatch(given["UNTIL"])
    with suppress(ValueError):  # the thirtieth of February
        if found is not None:
            return date(int(found[1]), int(found[2]), int(found[3]))
    raise BadRecurrence(f"UNTIL {_shown(given['UNTIL'])} is no date such as 20301231")


def _check_combination(parts: RuleParts) -> None:
    """Refuse what RFC 5545 forbids, and month days that no month of the rule has."""
    short = parts.frequency in {Frequency.DAILY, Frequency.WEEKLY}
    if parts.ordinals and short:
        raise BadRecurrence(f"BYDAY may count weekdays in MONTHLY and YEARLY rules only, not {parts.frequency}")
    if parts.month_days and parts.frequency is Frequency.WEEKLY:
        raise BadRecurrence("BYMONTHDAY has no place in a WEEKLY rule")
    if parts.positions and not (parts.weekdays or parts.ordinals or parts.month_days or parts.months):
        raise BadRecurrence("BYSETPOS needs another BY part to pick from")
    if parts.frequency is Frequency.DAILY and parts.positions and not parts.positions & {1, -1}:
        raise BadRecurrence("BYSETPOS can pick nothing but 1 or -1 of a day")
    if parts.count is not None and parts.until is not None:
        raise BadRecurrence("COUNT and UNTIL exclude each other")
    if parts.month_days:
        longest = max(_LONGEST_MONTHS[month - 1] for month in parts.months or range(1, 13))
        if min(abs(day) for day in parts.month_days) > longest:
            raise BadRecurrence("BYMONTHDAY is a day that no month of BYMONTH has")


def _shown(text: str) -> str:
    return ascii(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
