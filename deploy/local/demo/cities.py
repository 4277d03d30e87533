"""Where the people of the demonstration live, and what their clocks show."""

from dataclasses import dataclass
from datetime import datetime, tzinfo

from shared.domain.zones import parse_zone

# City, zone. Every continent; offsets that are no whole hours (marked) among them.
_PLACES = (
    ("Kiritimati", "Pacific/Kiritimati"),
    ("Chatham Isl.", "Pacific/Chatham"),  # +12:45
    ("Auckland", "Pacific/Auckland"),
    ("McMurdo", "Antarctica/McMurdo"),
    ("Lord Howe", "Australia/Lord_Howe"),  # +10:30, and half an hour of summer time
    ("Sydney", "Australia/Sydney"),
    ("Adelaide", "Australia/Adelaide"),  # +9:30
    ("Tokyo", "Asia/Tokyo"),
    ("Eucla", "Australia/Eucla"),  # +8:45
    ("Shanghai", "Asia/Shanghai"),
    ("Jakarta", "Asia/Jakarta"),
    ("Yangon", "Asia/Yangon"),  # +6:30
    ("Dhaka", "Asia/Dhaka"),
    ("Kathmandu", "Asia/Kathmandu"),  # +5:45
    ("Kolkata", "Asia/Kolkata"),  # +5:30
    ("Kabul", "Asia/Kabul"),  # +4:30
    ("Dubai", "Asia/Dubai"),
    ("Tehran", "Asia/Tehran"),  # +3:30
    ("Nairobi", "Africa/Nairobi"),
    ("Cairo", "Africa/Cairo"),
    ("Johannesburg", "Africa/Johannesburg"),
    ("Kyiv", "Europe/Kyiv"),
    ("Troll", "Antarctica/Troll"),
    ("Copenhagen", "Europe/Copenhagen"),
    ("Lagos", "Africa/Lagos"),
    ("London", "Europe/London"),
    ("Azores", "Atlantic/Azores"),
    ("St. John's", "America/St_Johns"),  # -3:30
    ("São Paulo", "America/Sao_Paulo"),
    ("Santiago", "America/Santiago"),
    ("New York", "America/New_York"),
    ("Bogotá", "America/Bogota"),
    ("Mexico City", "America/Mexico_City"),
    ("Los Angeles", "US/Pacific"),  # an alias, as old phones report it
    ("Marquesas", "Pacific/Marquesas"),  # -9:30
    ("Honolulu", "Pacific/Honolulu"),
)


@dataclass(frozen=True)
class City:
    """A place and its time zone, under the name that phones there report."""

    name: str
    zone_name: str
    zone: tzinfo

    def clock(self, instant: datetime) -> str:
        """What a clock on the wall shows, `HH:MM`."""
        return instant.astimezone(self.zone).strftime("%H:%M")


def cities_with_clear_clocks(due: datetime) -> list[City]:
    """Every city where the clock at `due` names no other instant.

    Where clocks are being put back, the local time at `due` may already have passed once, and a reminder fires the
    first time only: such a city sits this demonstration out.
    """
    cities = [City(name, zone, parse_zone(zone)) for name, zone in _PLACES]
    return [city for city in cities if due.astimezone(city.zone).fold == 0]
