"""Counters: what analysts read, derived from terminal rows and never from events, so that nothing is counted twice.

A run recounts every open day, seals the days that are over everywhere and have no row left that could change, and
deletes the rows of sealed days that are older than the retention. It alone deletes rows.
"""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from shared.adapters.mongo.counters import CounterStore
from shared.runtime.logs import get_logger

# The last place on earth ends a local date twelve hours after UTC does; the rest is for receipts and late rows.
_SEAL_AFTER = timedelta(days=2)


@dataclass
class CountersReport:
    """What a run did, in days and rows."""

    counted: int = 0
    sealed: int = 0
    purged_rows: int = 0


def run_counters(store: CounterStore, now: datetime, retention: timedelta) -> CountersReport:
    """Count, seal and purge at `now` (the database's clock). Running it again changes nothing."""
    report = CountersReport()
    log = get_logger("counters")
    sealed = store.sealed_days()
    oldest_kept = (now - retention).date().isoformat()
    for day in store.days_with_rows():
        if day not in sealed:
            # Asked before counting: a row that ends in between is counted, one that ended before is not missed.
            is_over = _is_over(day, now) and not store.has_open_rows(day)
            store.count(day)
            report.counted += 1
            if is_over:
                store.seal(day)
                sealed.add(day)
                report.sealed += 1
                log.info("day_sealed", local_date=day)
        if day in sealed and day < oldest_kept:
            report.purged_rows += store.purge(day)
    report.purged_rows += store.purge_deleted_before(oldest_kept)
    return report


def _is_over(day: str, now: datetime) -> bool:
    try:
        return date.fromisoformat(day) + _SEAL_AFTER < now.date()
    except ValueError:
        return False
