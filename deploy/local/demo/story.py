"""The story: people are planned for, change their minds, and get their reminders while everything goes wrong."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from consumer.tokens import register
from deploy.local.demo.cities import cities_with_clear_clocks
from deploy.local.demo.errors import DemoError
from deploy.local.demo.ledger import Evidence, count
from deploy.local.demo.people import build_scenario
from deploy.local.demo.processes import Fleet, Worker, finish
from deploy.local.demo.progress import Progress
from deploy.local.demo.roles import CAST, Role
from deploy.local.demo.scenario import Edit, Scenario
from deploy.local.demo.verdict import Verdict, judge_counters, judge_haste, judge_rows, judge_skips, judge_tokens
from deploy.local.demo.view import Show
from deploy.local.sandbox.process import SandboxProcess
from shared.adapters.mongo.client import Database
from shared.adapters.mongo.tokens import TokenStore

Document = dict[str, Any]

_CLAIM_SECONDS = 15
# What the scenario needs to be short, and to be hit in the middle of its burst.
SETTINGS = {
    "PUNKTLIG_BATCH_SIZE": "10",
    "PUNKTLIG_EXPO_TIMEOUT_SECONDS": "5",
    "PUNKTLIG_CLAIM_SECONDS": f"{_CLAIM_SECONDS}",
    "PUNKTLIG_BACKSTOP_SECONDS": "5",
    "PUNKTLIG_RECEIPT_DELAY_SECONDS": "3",
    "PUNKTLIG_HORIZON_HOURS": "1",
    "PUNKTLIG_LOG_FORMAT": "json",
}
_SERVICES = (
    ("relay 1", "creator", "relay"),
    ("relay 2", "creator", "relay"),
    ("consumer 1", "consumer", "send"),
    ("consumer 2", "consumer", "send"),
    ("receipts", "consumer", "receipts"),
)
_EXPO_DELAY_MS = 300
_KILL_AFTER_PUSHES = 60
_LEAD_SECONDS = 20.0
# A slow machine needs longer to plan: so many times what its slowest service needed to start.
_LEAD_PER_START = 4.0
# A re-send is timed from the request, the ledger from its acceptance, which a busy machine delays.
_TRAVEL_SECONDS = 2
_BURST_SECONDS = 60.0
_END_SECONDS = 150.0
_POLL_SECONDS = 0.3
_OPEN = {"isDeleted": False, "status": {"$in": ["pending", "sent"]}}


@dataclass(frozen=True)
class Theatre:
    """All that the story is played with."""

    database: Database
    sandbox: SandboxProcess
    fleet: Fleet
    progress: Progress
    show: Show


class Story:
    """One performance, from empty servers to the verdict."""

    def __init__(self, theatre: Theatre) -> None:
        self._stage = theatre
        self._note = theatre.show.note
        self._messages = theatre.database["notification_messages"]
        self._services: dict[str, Worker] = {}
        self._complaints: list[str] = []

    def perform(self) -> tuple[Scenario, Verdict]:
        """Play all of it. Raises DemoError if it cannot be played to its end."""
        scenario = self._open()
        self._plan(scenario)
        self._upset(scenario)
        self._break_things(scenario)
        self._await_end(scenario)
        counters = self._close()
        return scenario, self._judge(scenario, counters)

    def _open(self) -> Scenario:
        """Indexes and services; then people, all due at the next minute that leaves time enough."""
        self._stage.fleet.run("indexes", "creator", "indexes")
        self._note("indexes are in place; two relays, two consumers and the receipts service start")
        for name, *command in _SERVICES:
            self._services[name] = self._stage.fleet.start(name, *command)
        slowest = max(worker.wait_ready() for worker in self._services.values())
        due = _next_minute(max(_LEAD_SECONDS, _LEAD_PER_START * slowest))
        cities = cities_with_clear_clocks(due)
        scenario = build_scenario(due, cities)
        database = self._stage.database
        database["users"].insert_many(scenario.users)
        database["reminders"].insert_many(scenario.reminders)
        database["notification_tokens"].insert_many(scenario.tokens)
        self._arm(scenario)
        self._stage.show.meet(cities)
        self._stage.progress.follow(scenario)
        self._note(f"{len(scenario.users)} people in {len(cities)} cities wait for {due:%H:%M} UTC")
        return scenario

    def _arm(self, scenario: Scenario) -> None:
        """Tell the sandbox which phones are dead, to be slow, and to break one answer."""
        self._stage.sandbox.set_devices(scenario.phones)
        broken = {"fault": "server_error_after", "times": 1, "tokens": [scenario.sabotaged_token]}
        self._stage.sandbox.faults([broken, {"fault": "delay", "ms": _EXPO_DELAY_MS}])

    def _plan(self, scenario: Scenario) -> None:
        planners = [self._stage.fleet.start(f"planner {one}", "creator", "plan", "--json") for one in (1, 2)]
        self._note("two planners run at the same time")
        summaries = []
        for planner in planners:
            finish(planner, _BURST_SECONDS)
            summary = next(event["summary"] for event in planner.events() if "summary" in event)
            summaries.append(summary)
            skipped = sum(summary["skipped"].values())
            self._note(
                f"{planner.name}: {summary['planned']} planned, {summary['already']} already there, {skipped} skipped"
            )
        self._complaints += judge_skips(scenario, summaries)

    def _upset(self, scenario: Scenario) -> None:
        """Everything that people do, and that happens to the alarms, between planning and the due minute."""
        self._ring_twice()
        store = TokenStore(self._stage.database)
        for role, _ in CAST:
            for deed in scenario.after_planning.get(role, ()):
                if isinstance(deed, Edit):
                    where, change = {"_id": deed.document_id}, {"$set": deed.fields}
                    self._stage.database[deed.collection].update_one(where, change)
                else:
                    register(store, deed)
            if role in scenario.after_planning:
                self._note(f"{scenario.cast[role]} x {role}")
        for role in (Role.UNREGISTERED, Role.GONE):
            self._note(f"{scenario.cast[role]} x {role}")
        if datetime.now(UTC) >= scenario.due:
            raise DemoError("this machine is too slow: the reminders were due before everything was in place")

    def _ring_twice(self) -> None:
        """Forget that the broker has every alarm, as a relay does that dies in between, and relay all once more."""
        where = {"status": "pending", "isDeleted": False}
        messages = self._messages
        self._await(lambda: not messages.find_one({**where, "enqueuedAt": None}), _BURST_SECONDS, "the relay")
        forgotten = messages.update_many(where, {"$set": {"enqueuedAt": None}}).modified_count
        again = [self._stage.fleet.start(f"relay once {one}", "creator", "relay", "--once") for one in (1, 2)]
        self._note(f"the relay forgets {forgotten} alarms, and is run twice more at the same time")
        for worker in again:
            finish(worker, _BURST_SECONDS)
        still = messages.count_documents({**where, "enqueuedAt": None})
        if still or not forgotten:
            self._complaints.append(f"{still} of {forgotten} alarms were not relayed once more")
        self._note("each alarm is on the broker at least twice")

    def _break_things(self, scenario: Scenario) -> None:
        """Kill a consumer in the middle of the burst, and start another in its place."""
        until_due = (scenario.due - datetime.now(UTC)).total_seconds()
        self._note(f"waiting for {scenario.due:%H:%M} UTC")
        self._stage.sandbox.wait_for(lambda entries: len(entries) >= 1, until_due + _BURST_SECONDS)
        self._note("the first reminders arrive")
        self._stage.sandbox.wait_for(lambda entries: len(entries) >= _KILL_AFTER_PUSHES, _BURST_SECONDS)
        victim = self._services.pop("consumer 2")
        code = victim.kill()
        sent = len({entry["messageId"] for entry in self._stage.sandbox.ledger()})
        waiting = self._messages.count_documents(_OPEN | {"status": "pending"})
        self._note(
            f"consumer 2 (pid {victim.pid}) killed with SIGKILL after {sent} pushes; {waiting} rows are still open"
        )
        if code != -signal.SIGKILL or not waiting:
            self._complaints.append(f"the kill proves nothing: exit code {code}, {waiting} rows were waiting")
        self._services["consumer 3"] = self._stage.fleet.start("consumer 3", "consumer", "send")
        seconds = self._services["consumer 3"].wait_ready()
        self._note(f"consumer 3 takes its place after {seconds:.1f} s")

    def _await_end(self, scenario: Scenario) -> None:
        """Wait until no row is open; what is still open at the deadline is a complaint, and will count as lost."""
        messages = self._messages
        fresh = {"isDeleted": False, "status": "pending", "attemptStartedAt": None, "claim": None}
        left = (scenario.due - datetime.now(UTC)).total_seconds() + _END_SECONDS
        try:
            self._await(lambda: not messages.find_one(fresh), _BURST_SECONDS, "the end of the burst")
            doubtful = messages.count_documents({**_OPEN, "status": "pending"})
            self._note(f"the burst is over; {doubtful} rows are in doubt, and may be sent again in {_CLAIM_SECONDS} s")
            self._await(lambda: not messages.find_one(_OPEN), left, "the last row")
            self._note("every row has ended")
        except DemoError as fault:
            self._complaints.append(str(fault))
        broken = sum(order["fired"] for order in self._stage.sandbox.fault_counts() if order["fault"] != "delay")
        if broken != 1:
            self._complaints.append(f"{broken} answers were broken instead of 1")

    def _close(self) -> list[Document]:
        """Stop the services in good order, so that nothing can arrive any more, and let analysts count."""
        self._complaints += [
            f"{worker.name} had ended by itself; see {worker.log}"
            for worker in self._services.values()
            if not worker.is_running
        ]
        codes = self._stage.fleet.end_all()
        self._complaints += [f"{name} stopped with exit code {code}" for name, code in codes.items() if code]
        self._note(f"{len(codes)} services stopped; counting")
        self._stage.fleet.run("counters", "consumer", "counters")
        shown = self._stage.fleet.run("counters shown", "consumer", "counters", "--show", "--json")
        return [event for event in shown.events() if "count" in event]

    def _judge(self, scenario: Scenario, counters: list[Document]) -> Verdict:
        database = self._stage.database
        rows = list(self._messages.find({"isDeleted": False}))
        unresolved = {str(row["_id"]): int(row["unresolvedAttempts"]) for row in rows}
        evidence = Evidence(self._stage.sandbox.ledger(), self._stage.sandbox.devices(), unresolved)
        tally = count(scenario.expectations, evidence, scenario.due)
        complaints = self._complaints + judge_rows(scenario, rows, tally)
        complaints += judge_haste(tally, _CLAIM_SECONDS - _TRAVEL_SECONDS)
        complaints += judge_tokens(scenario, database["notification_tokens"].find())
        complaints += judge_counters(rows, counters)
        outcomes = Counter((row["status"], str(row["reason"])) for row in rows)
        return Verdict(tally, len(rows), outcomes, complaints, counters)

    def _await(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        pause = threading.Event()
        while not condition():
            if time.monotonic() > deadline:
                raise DemoError(f"{what} was awaited for {seconds:.0f} s in vain")
            pause.wait(_POLL_SECONDS)


def _next_minute(lead_seconds: float) -> datetime:
    """The first whole minute (UTC) that is at least so far ahead."""
    earliest = datetime.now(UTC) + timedelta(seconds=lead_seconds)
    whole = earliest.replace(second=0, microsecond=0)
    return whole if whole == earliest else whole + timedelta(minutes=1)
