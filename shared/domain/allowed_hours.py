"""The hours of the day in which a user wants to hear from us."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import time

from shared.domain.localtime import parse_local_time

_MIDNIGHT_AS_AN_END = "24:00"


@dataclass(frozen=True, slots=True)
class AllowedHours:
    """Wall-clock hours ``[start, end)``; they wrap over midnight where ``end`` is the earlier one.

    Where both are equal the whole day is allowed: hours that allow nothing would silence a user for ever, and
    whoever wants that has ``preferences.enabled``.
    """

    start: time
    end: time

    def contains(self, clock: time) -> bool:
        """Tell whether a time on the user's wall lies within: start inclusive, end exclusive."""
        if self.start < self.end:
            return self.start <= clock < self.end
        return clock >= self.start or clock < self.end


def parse_allowed_hours(value: object) -> AllowedHours | None:
    """Return the hours of ``{"start": "07:00", "end": "22:00"}``; ``None``, for no restriction, of ``None``.

    An end of ``24:00`` means midnight. Other keys are ignored.

    Raises:
        ValueError: no mapping, a key is missing, or a time is none (``BadLocalTime``).

    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ValueError(f"allowed hours are no mapping but {type(value).__name__}")  # noqa: TRY004 - a bad value
    missing = [key for key in ("start", "end") if key not in value]
    if missing:
        raise ValueError(f"allowed hours have no {' and no '.join(missing)}")
    end = value["end"]
    return AllowedHours(
        start=parse_local_time(value["start"]),
        end=time() if end == _MIDNIGHT_AS_AN_END else parse_local_time(end),
    )
