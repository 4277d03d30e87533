"""When a reminder fires for a user: pure, from the user's zone, wishes and the reminder's rule."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from shared.domain.documents import Reminder, User
from shared.domain.localtime import local_clock_at, local_date_at, parse_local_time, resolve
from shared.domain.policy import CategoryPolicy

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Window:
    """The instants a plan looks at (aware UTC): what passed by less than the grace, up to the horizon."""

    start: datetime
    end: datetime

    def contains(self, instant: datetime) -> bool:
        """Whether the window holds it."""
        return self.start < instant < self.end


@dataclass(frozen=True)
class Occurrence:
    """One local date and time of a reminder, and the instant it means. `refused` if outside the allowed hours."""

    local_date: str
    local_time: str
    scheduled_at: datetime
    refused: bool = False


def occurrences(user: User, reminder: Reminder, window: Window, policy: CategoryPolicy) -> Iterator[Occurrence]:
    """The occurrences of `reminder` in `window`, by local date, then in the order of its `localTimes`.

    Local dates are walked, never hours: one day more on either side, since a gap may shift a time over midnight.
    """
    first = local_date_at(window.start, user.zone) - _DAY
    last = local_date_at(window.end, user.zone)
    for local_date in reminder.recurrence.dates(first, last):
        for wall, key in reminder.times:
            instant = resolve(local_date, wall, user.zone)
            if instant is not None and window.contains(instant):
                refused = not allowed_at(instant, user, policy)
                yield Occurrence(local_date.isoformat(), key, instant, refused)


def occurrence_of(user: User, reminder: Reminder, local_date: str, local_time: str) -> datetime | None:
    """The instant that an occurrence's key means now, or None if the reminder no longer has it."""
    day = date.fromisoformat(local_date)
    if local_time not in {key for _, key in reminder.times} or not reminder.recurrence.dates(day, day):
        return None
    return resolve(day, parse_local_time(local_time), user.zone)


def allowed_at(instant: datetime, user: User, policy: CategoryPolicy) -> bool:
    """Whether the user's allowed hours admit the local clock at `instant`."""
    if user.allowed_hours is None or policy.ignore_allowed_hours:
        return True
    return user.allowed_hours.contains(local_clock_at(instant, user.zone))
