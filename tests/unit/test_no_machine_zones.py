"""The machine's own zone files and settings have no say: proved with files that lie and foreign settings."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Two hours of every zone, resolved over two years, and what recurs in it: one digest.
DIGEST = """
import hashlib
from datetime import date, time, timedelta
from shared.domain.localtime import candidate_dates, day_bounds, local_clock_at, local_date_at, resolve
from shared.domain.recurrence import parse_recurrence
from shared.domain.zones import parse_zone, zone_names
digest = hashlib.sha256()
every_third = parse_recurrence("FREQ=DAILY;INTERVAL=3", anchor=date(2024, 1, 1))
days = every_third.dates(date(2025, 12, 1), date(2027, 1, 31))
for name in zone_names()[::4]:
    zone = parse_zone(name)
    for day in days:
        instants = [resolve(day, clock, zone) for clock in (time(0, 30), time(9))]
        seen = [(at, local_date_at(at, zone), local_clock_at(at, zone)) for at in instants if at is not None]
        digest.update(repr((name, day, seen, day_bounds(day, zone))).encode())
print(digest.hexdigest())
"""
POISON = """
import zoneinfo
from datetime import datetime, timedelta
from shared.domain.zones import parse_zone, use_packaged_zones
noon = datetime(2026, 7, 1, 12)
assert zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(noon) == timedelta(hours=9), "the poison does not work"
assert parse_zone("Europe/Berlin").utcoffset(noon) == timedelta(hours=2)
use_packaged_zones()
assert zoneinfo.ZoneInfo("Europe/Berlin").utcoffset(noon) == timedelta(hours=2)
assert parse_zone("Europe/Berlin").utcoffset(noon) == timedelta(hours=2)
"""
OPENED = """
import sys
opened = []
sys.addaudithook(lambda event, given: opened.append(str(given[0])) if event == "open" else None)
from datetime import UTC, date, datetime, time
from shared.domain.localtime import local_clock_at, resolve
from shared.domain.recurrence import parse_recurrence
from shared.domain.zones import parse_zone, zone_names
for name in zone_names():
    resolve(date(2026, 7, 1), time(9), parse_zone(name))
parse_recurrence("FREQ=MONTHLY;BYDAY=-1FR", anchor=date(2026, 1, 1)).dates(date(2026, 1, 1), date(2026, 3, 1))
zone_files = [path for path in opened if "zoneinfo" in path and not path.endswith((".py", ".pyc", ".so"))]
assert len(zone_files) > 590, len(zone_files)
print(*[path for path in opened if "localtime" in path and not path.endswith((".py", ".pyc"))], sep="\\n")
print(*[path for path in zone_files if "/tzdata/zoneinfo/" not in path], sep="\\n")
"""


def run(program: str, **environment: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_zone_files_of_the_machine_that_lie_are_not_believed(tmp_path: Path) -> None:
    import tzdata  # noqa: PLC0415 - found where the package manager put it

    poisoned = tmp_path / "Europe" / "Berlin"
    poisoned.parent.mkdir()
    poisoned.write_bytes((Path(tzdata.__file__).parent / "zoneinfo" / "Asia" / "Tokyo").read_bytes())
    run(POISON, PYTHONTZPATH=str(tmp_path))


def test_no_zone_file_is_opened_outside_the_package() -> None:
    assert run(OPENED).split() == []


def test_the_zone_of_the_host_changes_nothing() -> None:
    digests = {zone: run(DIGEST, TZ=zone) for zone in ("UTC", "America/New_York", "Asia/Kolkata")}
    assert len(set(digests.values())) == 1, digests
    assert len(digests["UTC"].strip()) == 64


def machine_zone_uses(source: str) -> list[str]:
    """Name the calls and imports by which a program takes zones, or its idea of here, from the machine."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("dateutil.tz")]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += [name for name in names if name.startswith(("dateutil.tz", "zoneinfo.ZoneInfo"))]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = f"{node.value.id}.{node.attr}"
            if name in {"zoneinfo.ZoneInfo", "time.localtime", "time.mktime", "time.tzname", "date.today"}:
                found.append(name)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "from zoneinfo import ZoneInfo",
        "import zoneinfo\nzoneinfo.ZoneInfo('UTC')",
        "from dateutil import tz",
        "import dateutil.tz",
        "import time\ntime.localtime()",
        "from datetime import date\ndate.today()",
    ],
)
def test_the_search_finds_what_it_looks_for(source: str) -> None:
    assert machine_zone_uses(source)


def test_only_the_zones_module_asks_zoneinfo() -> None:
    sources = [path for part in ("creator", "consumer", "shared") for path in (ROOT / part).rglob("*.py")]
    assert ROOT / "shared" / "domain" / "localtime.py" in sources
    used = {str(path.relative_to(ROOT)): machine_zone_uses(path.read_text(encoding="utf-8")) for path in sources}
    used.pop(str(Path("shared/domain/zones.py")))
    assert {path: uses for path, uses in used.items() if uses} == {}
