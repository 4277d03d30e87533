"""Cost: processor time per 1,000 notifications of everything that takes part, from plan to receipt."""

import json
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime

from pymongo.database import Database

from tests.bench.figures import Figure
from tests.bench.ground import UNLIMITED, Document, Ground, ground, wait_until_none
from tests.bench.population import people, reminders
from tests.bench.processes import Service, cpu_seconds, run

_WARM_UP, _MESSAGES = 2_000, 10_000
_WAIT_SECONDS = 180.0
_SERVICES = (("creator", "relay"), ("consumer", "send"), ("consumer", "receipts"))


def bench() -> list[Figure]:
    """Services are started and warm before anything is counted; the plan, a cron, is counted from start to end."""
    with ground(*UNLIMITED) as here, here.database() as (database, settings):
        settings["PUNKTLIG_RECEIPT_DELAY_SECONDS"] = "2"
        with ExitStack() as stack:
            services = {" ".join(name): stack.enter_context(Service(settings, *name)) for name in _SERVICES}
            for service in services.values():
                service.wait_for("started", _WAIT_SECONDS)
            _pass_through(database, settings, _WARM_UP)
            pids = {name: service.pid for name, service in services.items()} | _servers(here)
            before = {name: cpu_seconds([pid]) for name, pid in pids.items()}
            plan = _pass_through(database, settings, _MESSAGES)
            used = {name: cpu_seconds([pid]) - before[name] for name, pid in pids.items()}
    return _figures({"creator plan": plan} | used)


def _servers(here: Ground) -> dict[str, int]:
    return {"mongod": here.stack.mongod.pid, "broker": here.stack.broker.pid}


def _figures(used: Mapping[str, float]) -> list[Figure]:
    each = {name: seconds * 1000 / _MESSAGES for name, seconds in used.items()}
    ours = {name: seconds for name, seconds in each.items() if " " in name}
    detail = ", ".join(f"{name} {seconds:.3f}" for name, seconds in ours.items())
    unit = "CPU s/1,000"
    return [
        Figure("cost, our processes", sum(ours.values()), unit, detail),
        Figure("cost, mongod", each["mongod"], unit, "journalled majority writes, all reads"),
        Figure("cost, broker", each["broker"], unit, "frames for sending and for receipts"),
    ]


def _pass_through(database: Database[Document], settings: Mapping[str, str], count: int) -> float:
    """Plan `count` notifications and wait until all have their receipts; the CPU seconds of the plan."""
    reminders(database, people(database, count, ["Etc/UTC"]), [datetime.now(UTC).strftime("%H:%M")])
    plan = run(settings, "creator", "plan", "--horizon", "0.01", "--json")
    planned = json.loads(plan.answer.splitlines()[-1])["summary"]["planned"]
    assert planned == count, plan.answer[-500:]
    wait_until_none(database, {"status": {"$in": ["pending", "sent"]}}, _WAIT_SECONDS)
    return plan.cpu_seconds
