"""Lateness: how punctual rows leave that are spread over seconds, and how fast a hot minute drains."""

from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from tests.bench.figures import Figure, lateness_figure
from tests.bench.ground import UNLIMITED, Document, arrival_rate, ground, instants, ledger_of, next_minute
from tests.bench.population import CATEGORIES, message, people, reminders
from tests.bench.processes import Service, run

_SPREAD_ROWS, _SPREAD_SECONDS = 1_000, 10
_DRAIN_ROWS, _DRAIN_CONSUMERS = 5_000, 2
_AHEAD = timedelta(seconds=6)
_WAIT_SECONDS = 120.0

# Task queues on the same kind of machine (2 cores, two workers, a task that does nothing), in their default
# settings: lateness of 1,000 tasks due over 10 s (median and 95th percentile, seconds), tasks per second out of
# 5,000 due at one instant.
NEIGHBOURS = (
    ("Celery, Redis, ETA", "0.002 / 0.003", "663 to 1,035"),
    ("dramatiq, Redis, delay", "0.53 / 1.11", "670 to 1,273"),
    ("arq", "0.27 / 0.45", "476 to 692"),
    ("taskiq", "0.66 / 1.05", "452"),
    ("procrastinate, PostgreSQL", "1.26 / 2.62", "162"),
)


def bench_spread() -> list[Figure]:
    """1,000 rows due over 10 s, each at a millisecond of its own, with a relay and one consumer.

    Reminders fall on whole minutes, so these are messages without one; user and token are read again all the same.
    """
    with ground(*UNLIMITED) as here, here.database() as (database, settings), ExitStack() as stack:
        owners = people(database, _SPREAD_ROWS, ["Etc/UTC"])
        relay = stack.enter_context(Service(settings, "creator", "relay"))
        consumer = stack.enter_context(Service(settings, "consumer", "send"))
        relay.wait_for("relay_leads", _WAIT_SECONDS)
        consumer.wait_for("broker_connected", _WAIT_SECONDS)
        first, step = datetime.now(UTC) + _AHEAD, timedelta(seconds=_SPREAD_SECONDS) / _SPREAD_ROWS
        rows = [
            message(owner, CATEGORIES[number % len(CATEGORIES)], _whole_ms(first + number * step))
            for number, owner in enumerate(owners)
        ]
        database.notification_messages.insert_many(rows, ordered=False)
        ledger = ledger_of(here, database, _SPREAD_ROWS, _WAIT_SECONDS)
    due = {str(row["_id"]): row["scheduledAt"] for row in rows}
    late = [_late(entry, due[entry["messageId"]]) for entry in ledger]
    return [lateness_figure("lateness, 1,000 over 10 s", late, "one consumer")]


def bench_drain() -> list[Figure]:
    """5,000 reminders due at one instant, two consumers, every check included."""
    with ground(*UNLIMITED) as here, here.database() as (database, settings), ExitStack() as stack:
        relay = stack.enter_context(Service(settings, "creator", "relay"))
        consumers = [stack.enter_context(Service(settings, "consumer", "send")) for _ in range(_DRAIN_CONSUMERS)]
        owners = people(database, _DRAIN_ROWS, ["Etc/UTC"])
        relay.wait_for("relay_leads", _WAIT_SECONDS)
        for consumer in consumers:
            consumer.wait_for("broker_connected", _WAIT_SECONDS)
        due = next_minute(6)
        reminders(database, owners, [due.strftime("%H:%M")])
        run(settings, "creator", "plan", "--horizon", "1")
        ledger = ledger_of(here, database, _DRAIN_ROWS, _WAIT_SECONDS)
    late = [(instant - due).total_seconds() for instant in instants(ledger)]
    detail = f"all out {max(late):.2f} s after the instant ({_DRAIN_ROWS / max(late):,.0f}/s counted from it)"
    return [
        Figure("drain, 5,000 at one instant", arrival_rate(ledger), "rows/s", detail),
        lateness_figure("drain, lateness", late, f"{_DRAIN_CONSUMERS} consumers"),
    ]


def neighbours() -> list[str]:
    """Lines to print beneath the two figures."""
    lines = [f"    {'beside them':<28} {'late p50 / p95, s':<20} drained/s"]
    return lines + [f"    {name:<28} {late:<20} {drained}" for name, late, drained in NEIGHBOURS]


def _whole_ms(instant: datetime) -> datetime:
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _late(entry: Document, due: datetime) -> float:
    return (datetime.fromisoformat(entry["at"]) - due).total_seconds()
