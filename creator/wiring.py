"""Puts the parts of the planning half together. The only place that knows them all."""

from datetime import timedelta

from creator.adopt import Adopter
from creator.plan import Planner
from creator.relay import Relay, RelayParts, RelayTiming
from creator.ringing import Ringer, RingRules
from creator.sweep import Sweeper, SweepParts, SweepRules
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.changes import RelayState
from shared.adapters.mongo.plan_rows import PlanRows
from shared.adapters.mongo.relocation import Relocator
from shared.process import Process


def build_planner(process: Process) -> Planner:
    """The plan stage."""
    database = process.database
    return Planner(Audience(database), PlanRows(database), process.settings.policies, process.metrics)


def build_sweeper(process: Process) -> Sweeper:
    """The backstop."""
    settings = process.settings
    backlog = Backlog(process.database)
    rules = SweepRules(
        policies=settings.policies,
        decision=process.decision_rules,
        interval=timedelta(seconds=settings.backstop_seconds),
        window=settings.broker_window,
        receipt_give_up=timedelta(seconds=settings.receipt_give_up_seconds),
    )
    relocator = Relocator(process.database, process.decision_rules)
    parts = SweepParts(backlog, Audience(process.database), relocator, _ringer(process, backlog))
    return Sweeper(parts, rules, process.metrics)


def build_relay(process: Process) -> Relay:
    """The relay stage."""
    settings = process.settings
    backlog = Backlog(process.database)
    parts = RelayParts(
        state=RelayState(process.database),
        backlog=backlog,
        ringer=_ringer(process, backlog),
        sweeper=build_sweeper(process),
        adopter=Adopter(backlog, Audience(process.database), settings.policies),
        metrics=process.metrics,
    )
    # Rows enter the window at a sweep: with a window shorter than the interval they would come late.
    interval = min(timedelta(seconds=settings.backstop_seconds), settings.broker_window / 2)
    return Relay(parts, RelayTiming(process.clock.now, settings.broker_window, interval))


def _ringer(process: Process, backlog: Backlog) -> Ringer:
    settings = process.settings
    rules = RingRules(process.clock.now, settings.batch_size, frozenset(settings.categories))
    return Ringer(process.bell, backlog, rules, process.metrics)
