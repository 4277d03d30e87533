"""Time zones as phones name them, read from the pinned ``tzdata`` package and from nowhere else.

``zoneinfo`` prefers the files of the machine, which may be years old: on such a host every reminder in a
country that changed its rules rings an hour off. So each zone is read here from the package itself; no
setting and no environment variable can put the machine's files before it.
"""

import re
import zoneinfo
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from importlib import import_module, resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PACKAGE: Final = "tzdata"
_LONGEST_NAME: Final = 64
_SHOWN: Final = 40
# IANA's place-holder for "nobody has set this machine up" tells nothing of where its user lives.
_NO_PLACE: Final = frozenset({"factory"})
# What Java and ISO 8601 accept, and more than any place on earth uses (-12:00 to +14:00).
_FURTHEST: Final = timedelta(hours=18)
_OFFSET: Final = re.compile(
    r"(?:utc|gmt|ut)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::(?P<minutes>[0-9]{2})|(?<=[0-9]{2})(?P<tail>[0-9]{2}))?",
)


class BadTimezone(ValueError):
    """A time zone nobody can keep time by; the text says why and shows at most some 40 characters of it."""


def use_packaged_zones() -> None:
    """Make ``zoneinfo`` itself read the package too, for code that asks it for zones directly."""
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()


def tzdata_version() -> str:
    """Return the IANA release of the zone data in use, such as ``2026f``."""
    return str(import_module(_PACKAGE).IANA_VERSION)


def zone_names() -> tuple[str, ...]:
    """Return every zone name of the package, aliases included, in IANA's spelling."""
    return tuple(_names().values())


def parse_zone(name: object) -> tzinfo:
    """Return the zone that a device or user document names.

    Accepts IANA names and aliases in any case and padded with blanks, ``Z``, and fixed offsets as phones
    write them: ``GMT+02:00``, ``UTC+5``, ``+05:30``, ``-0330``. Their sign counts *east* as positive, as
    everybody but POSIX means it; ``Etc/GMT-3`` is an IANA name and keeps IANA's meaning, three hours east.
    ``str()`` of the result is a name that this function reads back.

    Raises:
        BadTimezone: not a string, empty, too long, or no zone of the package.

    """
    if not isinstance(name, str):
        raise BadTimezone(f"time zone is no string but {type(name).__name__}")
    return _parse(name)


@lru_cache(maxsize=4096)
def _parse(name: str) -> tzinfo:
    wanted = name.strip().lower()
    if not wanted:
        raise BadTimezone("time zone is empty")
    if len(wanted) > _LONGEST_NAME:
        raise BadTimezone(f"time zone is longer than {_LONGEST_NAME} characters: {_shown(name)}")
    if wanted == "z":
        return UTC
    known = _names().get(wanted)
    if known is not None:
        return _load(known)
    offset = _OFFSET.fullmatch(wanted)
    if offset is None:
        raise BadTimezone(f"unknown time zone {_shown(name)}")
    return _fixed(offset, name)


def _fixed(offset: re.Match[str], name: str) -> tzinfo:
    minutes = int(offset["minutes"] or offset["tail"] or 0)
    east = timedelta(hours=int(offset["hours"]), minutes=minutes)
    if minutes >= 60 or east > _FURTHEST:  # noqa: PLR2004 - minutes of an hour
        raise BadTimezone(f"no such offset from UTC: {_shown(name)}")
    return timezone(-east if offset["sign"] == "-" else east)


@lru_cache(maxsize=1)
def _names() -> "Mapping[str, str]":
    """Map lower-case names to IANA's spelling: only what is listed is opened, so no name can be a path."""
    listed = resources.files(_PACKAGE).joinpath("zones").read_text(encoding="utf-8").split()
    return MappingProxyType({name.lower(): name for name in listed if name.lower() not in _NO_PLACE})


@lru_cache(maxsize=1024)  # more than the package has zones: one object for each, for good
def _load(name: str) -> tzinfo:
    with resources.files(_PACKAGE).joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return zoneinfo.ZoneInfo.from_file(file, key=name)


def _shown(name: str) -> str:
    """Return a short and printable form of a text that may be megabytes of anything."""
    head = name[:_SHOWN]
    return ascii(head)[: _SHOWN + 2] + ("…" if len(name) > len(head) else "")
