"""Rate: a hot minute against Expo's limit of 600 a second leaves almost as fast as the limit allows, without a 429."""

import itertools
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime

from tests.bench.figures import Figure, Wanted
from tests.bench.ground import Document, ground, instants, ledger_of, next_minute
from tests.bench.population import people, reminders
from tests.bench.processes import Service, run

_ROWS, _PER_SECOND, _CONSUMERS = 10_000, 600, 2
_LIMITED = ("--rate=600", "--connections=6")
_IDEAL_SECONDS = _ROWS / _PER_SECOND
_TOO_MANY = 429
_WAIT_SECONDS = 150.0


def bench() -> list[Figure]:
    """10,000 reminders of one minute, two consumers, the sandbox judging every sliding second."""
    with ground(*_LIMITED) as here, here.database(limited=True) as (database, settings), ExitStack() as stack:
        relay = stack.enter_context(Service(settings, "creator", "relay"))
        consumers = [stack.enter_context(Service(settings, "consumer", "send")) for _ in range(_CONSUMERS)]
        owners = people(database, _ROWS, ["Etc/UTC"])
        relay.wait_for("relay_leads", _WAIT_SECONDS)
        for consumer in consumers:
            consumer.wait_for("broker_connected", _WAIT_SECONDS)
        due = next_minute(8)
        reminders(database, owners, [due.strftime("%H:%M")])
        run(settings, "creator", "plan", "--horizon", "1")
        ledger = ledger_of(here, database, _ROWS, _WAIT_SECONDS)
        asked = here.expo.requests()
    return _figures(due, ledger, asked)


def _figures(due: datetime, ledger: list[Document], asked: Sequence[Document]) -> list[Figure]:
    arrived = instants(ledger)
    seconds = (arrived[-1] - due).total_seconds()
    refused = sum(1 for request in asked if request["status"] == _TOO_MANY)
    sizes = [request["recipients"] for request in asked]
    detail = (
        f"{seconds:.2f} s after the instant, ideal {_IDEAL_SECONDS:.1f} s; {len(sizes)} requests of "
        f"{min(sizes)} to {max(sizes)}; busiest second {_busiest_second(arrived)}"
    )
    return [
        Figure(
            "rate, 10,000 in one minute", seconds / _IDEAL_SECONDS, "x ideal", detail, Wanted(1.1, 1.1, at_most=True)
        ),
        Figure("rate, refusals (429)", refused, "requests", f"of {len(asked)}", Wanted(0, 0, at_most=True)),
    ]


def _busiest_second(arrived: Sequence[datetime]) -> int:
    """The most arrivals within any sliding second."""
    most, start = 0, 0
    for end, instant in enumerate(arrived):
        start = next(
            position for position in itertools.count(start) if (instant - arrived[position]).total_seconds() < 1
        )
        most = max(most, end - start + 1)
    return most
