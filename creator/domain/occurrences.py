"""When a reminder fires for a user: pure, from the user's zone, wishes and the reminder's rule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, tzinfo
from typing import NamedTuple

from shared.domain.documents import EVERY_DAY, Reminder, User
from shared.domain.localtime import candidate_dates, local_clock_at, parse_local_time, resolve
from shared.domain.policy import CategoryPolicy

_MOST_SLOTS = 50_000


@dataclass(frozen=True)
class Window:
    """The instants a plan looks at (aware UTC): what passed by less than the grace, up to the horizon."""

    start: datetime
    end: datetime

    def contains(self, instant: datetime) -> bool:
        """Whether the window holds it."""
        return self.start < instant < self.end


class Occurrence(NamedTuple):
    """One local date and time of a reminder, and the instant it means. `refused` if outside the allowed hours."""

    local_date: str
    local_time: str
    scheduled_at: datetime
    refused: bool


class Calendar:
    """The instants in a window of a zone's wall times, resolved once: a million users share a few hundred zones."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._days: dict[tzinfo, Sequence[date]] = {}
        self._slots: dict[tuple[tzinfo, time], dict[date, tuple[str, datetime]]] = {}

    def days(self, zone: tzinfo) -> Sequence[date]:
        """The local dates that can matter, in order."""
        found = self._days.get(zone)
        if found is None:
            found = self._days[zone] = tuple(candidate_dates(self._window.start, self._window.end, zone))
        return found

    def slots(self, zone: tzinfo, wall: time) -> Mapping[date, tuple[str, datetime]]:
        """For each local date on which `wall` falls into the window: the date as text, and the instant."""
        key = (zone, wall)
        found = self._slots.get(key)
        if found is None:
            if len(self._slots) > _MOST_SLOTS:
                self._slots.clear()
            found = self._slots[key] = dict(self._resolved(zone, wall))
        return found

    def _resolved(self, zone: tzinfo, wall: time) -> Iterator[tuple[date, tuple[str, datetime]]]:
        for day in self.days(zone):
            instant = resolve(day, wall, zone)
            if instant is not None and self._window.contains(instant):
                yield day, (day.isoformat(), instant)


def occurrences(user: User, reminder: Reminder, calendar: Calendar, policy: CategoryPolicy) -> Iterator[Occurrence]:
    """The occurrences of `reminder` in the calendar's window, by local date, then in the order of its `localTimes`.

    Local dates are walked, never hours.
    """
    slots = [(key, calendar.slots(user.zone, wall)) for wall, key in reminder.times]
    if reminder.recurrence is EVERY_DAY and len(slots) == 1:
        [(key, slot)] = slots
        for text, instant in slot.values():
            yield Occurrence(text, key, instant, not allowed_at(instant, user, policy))
        return
    days = calendar.days(user.zone)
    for local_date in reminder.recurrence.dates(days[0], days[-1]):
        for key, slot in slots:
            found = slot.get(local_date)
            if found is not None:
                yield Occurrence(found[0], key, found[1], not allowed_at(found[1], user, policy))


def occurrence_of(user: User, reminder: Reminder, local_date: str, local_time: str) -> datetime | None:
    """The instant that an occurrence's key means now, or None if the reminder no longer has it."""
    try:
        day = date.fromisoformat(local_date)
    except ValueError:
        return None  # written by another program
    if local_time not in {key for _, key in reminder.times} or not reminder.recurrence.dates(day, day):
        return None
    return resolve(day, parse_local_time(local_time), user.zone)


def allowed_at(instant: datetime, user: User, policy: CategoryPolicy) -> bool:
    """Whether the user's allowed hours admit the local clock at `instant`."""
    if user.allowed_hours is None or policy.ignore_allowed_hours:
        return True
    return user.allowed_hours.contains(local_clock_at(instant, user.zone))
