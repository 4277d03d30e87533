"""Plan: rows per second of a whole `creator plan` process, against inserting the same documents and nothing else."""

import statistics
import time

from pymongo.database import Database

from shared.adapters.mongo.indexes import create_indexes
from tests.bench.figures import Duel, Figure, Wanted
from tests.bench.ground import Document, ground
from tests.bench.population import people, reminders
from tests.bench.processes import Finished, run

_USERS = 20_000
_EACH = 2
_ROUNDS = 3
_TIMES = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in (0, 15, 30, 45)]
_MEMORY_USERS = (10_000, 100_000)


def bench() -> list[Figure]:
    """The rate, and what a second run costs that finds everything there. The process's start-up is subtracted."""
    with ground() as here, here.database() as (empty, to_empty), here.database() as (database, settings):
        reminders(database, people(database, _USERS), _TIMES, _EACH)
        start_up = statistics.median(run(to_empty, "creator", "plan").seconds for _ in range(3))
        duel, again = Duel(), []
        for _ in range(_ROUNDS):
            _clear(database)
            first = run(settings, "creator", "plan").seconds - start_up
            again.append((run(settings, "creator", "plan").seconds - start_up) / first)
            rows = list(database.notification_messages.find({}, {"_id": 0}))
            duel.ours.append(len(rows) / first)
            duel.bare.append(_bare(empty, rows))
    share = statistics.median(again)
    detail = f"of the first run's time; {len(rows):,} rows, start-up of {start_up:.2f} s subtracted"
    return [
        duel.figure("plan", "rows/s", Wanted(0.5, 0.7)),
        Figure("plan, nothing new", share, "x first run", detail, Wanted(0.5, 0.25, at_most=True)),
    ]


def bench_memory() -> list[Figure]:
    """How much a plan's peak memory grows with ten times the users."""
    peaks: list[Finished] = []
    with ground() as here:
        for count in _MEMORY_USERS:
            with here.database() as (database, settings):
                reminders(database, people(database, count), _TIMES, _EACH)
                peaks.append(run(settings, "creator", "plan"))
    small, large = (one.peak_mib for one in peaks)
    detail = f"{small:.0f} MiB for {_MEMORY_USERS[0]:,} users, {large:.0f} MiB for {_MEMORY_USERS[1]:,}"
    return [Figure("plan, memory growth", large - small, "MiB", detail, Wanted(50, 50, at_most=True))]


def _bare(database: Database[Document], rows: list[Document]) -> float:
    _clear(database)
    documents = [dict(row) for row in rows]
    began = time.monotonic()
    database.notification_messages.insert_many(documents, ordered=False)
    return len(rows) / (time.monotonic() - began)


def _clear(database: Database[Document]) -> None:
    database.notification_messages.drop()
    create_indexes(database)
