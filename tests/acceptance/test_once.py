"""Two of everything, repeated, killed and restarted: one push per occurrence and phone, and none lost."""

import json
import threading

import pytest

from deploy.local.stack import LocalStack
from tests.acceptance.world import World, soon, this_minute

# A short claim, and with it a short pause before a re-send.
QUICK = {"CLAIM_SECONDS": "10", "EXPO_TIMEOUT_SECONDS": "4", "BACKSTOP_SECONDS": "5"}


def test_two_planners_at_once_and_a_third_after_delivery_plan_each_occurrence_once(world: World) -> None:
    people = [f"p{number}" for number in range(300)]
    for name in people:
        world.person(name, due=this_minute())
    both = [world.launch("creator plan --json"), world.launch("creator plan --json")]
    assert [service.process.wait(60) for service in both] == [0, 0]
    assert world.messages.count_documents({}) == len(people)
    world.ok("creator relay --once")
    world.ok("creator relay --once")
    world.ok("consumer send --once")
    again = json.loads(world.ok("creator plan --json").splitlines()[-1])["summary"]
    assert again == {"planned": 0, "already": len(people), "skipped": {}}
    world.ok("creator relay --once")
    world.ok("consumer send --once")
    assert world.arrivals() == {f"ExponentPushToken[{name}]": 1 for name in people}


def test_a_consumer_killed_in_the_middle_loses_and_repeats_nothing(world: World) -> None:
    short = QUICK | {"BATCH_SIZE": "5"}
    people = [f"p{number}" for number in range(100)]
    for name in people:
        world.person(name, due=this_minute())
    # Each request takes a second, so the burst is still going on when the first arrivals are seen.
    world.sandbox.faults([{"fault": "delay", "ms": 1000}])
    world.start("creator relay", **short)
    first = world.start("consumer send", **short)
    world.ok("creator plan")
    world.sandbox.wait_for(lambda ledger: len(ledger) >= 10, timeout=60)
    assert first.kill() == -9
    cut_off = len(world.sandbox.ledger())
    assert cut_off < len(people), "the consumer was killed too late to prove anything"
    world.start("consumer send", **short)
    world.wait_until(lambda: world.messages.count_documents({"status": "pending"}) == 0, seconds=90)
    arrivals = world.arrivals()
    assert set(arrivals) == {f"ExponentPushToken[{name}]" for name in people}, "lost"
    for row in world.messages.find():
        twice = arrivals[f"ExponentPushToken[{row['userId']}]"] - 1
        assert twice <= row["unresolvedAttempts"] <= 1, "accepted twice without being recorded as unknown"
    shown = world.sandbox.devices()
    assert all(len(shown[token]["shown"]) == 1 for token in arrivals), "a phone shows it twice"


def test_two_relays_share_the_work_and_survive_each_other(world: World) -> None:
    first = world.start("creator relay")
    first.wait_for("relay_leads")
    second = world.start("creator relay")
    world.start("consumer send")
    world.user("early")
    world.row("early", soon(1))
    world.sandbox.wait_for(lambda ledger: len(ledger) == 1, timeout=30)
    assert first.kill() == -9
    second.wait_for("relay_leads")
    world.user("later")
    world.row("later", soon(1))
    world.sandbox.wait_for(lambda ledger: len(ledger) == 2, timeout=30)
    assert set(world.arrivals().values()) == {1}


def test_the_broker_is_killed_with_everything_on_it(world: World, stack: LocalStack) -> None:
    people = [f"p{number}" for number in range(50)]
    for name in people:
        world.user(name)
    relay = world.start("creator relay", BACKSTOP_SECONDS="3")
    relay.wait_for("relay_leads")
    send = world.start("consumer send")
    send.wait_for("broker_connected")
    for name in people:
        world.row(name, soon(6))
    world.wait_until(lambda: world.messages.count_documents({"enqueuedAt": {"$ne": None}}) == len(people))
    stack.broker.kill()
    send.wait_for("broker_connection_lost")
    assert send.get("/readyz")[0] == 503
    stack.broker.start()
    world.sandbox.wait_for(lambda ledger: len(ledger) >= len(people), timeout=60)
    world.wait_until(lambda: world.messages.count_documents({"status": "sent"}) == len(people))
    assert world.arrivals() == {f"ExponentPushToken[{name}]": 1 for name in people}
    assert send.get("/readyz")[0] == 200


def test_the_database_is_killed_and_comes_back(world: World, stack: LocalStack) -> None:
    people = [f"p{number}" for number in range(50)]
    for name in people:
        world.user(name)
        world.row(name, soon(8))
    relay = world.start("creator relay", BACKSTOP_SECONDS="3")
    relay.wait_for("relay_leads")
    send = world.start("consumer send")
    send.wait_for("broker_connected")
    stack.mongod.kill()
    relay.wait_for("relay_interrupted")
    stack.mongod.start()
    world.sandbox.wait_for(lambda ledger: len(ledger) >= len(people), timeout=60)
    world.wait_until(lambda: world.messages.count_documents({"status": "sent"}) == len(people))
    assert world.arrivals() == {f"ExponentPushToken[{name}]": 1 for name in people}


def test_a_sweep_needs_no_broker_message_to_have_survived(world: World) -> None:
    for name in ("never-published", "lost-on-the-broker", "held-by-the-dead", "far-too-late"):
        world.user(name)
    world.row("never-published", soon(-5))
    world.row("lost-on-the-broker", soon(-5), enqueuedAt=soon(-4000))
    world.row("held-by-the-dead", soon(-5), enqueuedAt=soon(-4000), claim={"owner": "dead", "expiresAt": soon(-1)})
    world.row("far-too-late", soon(-4000), enqueuedAt=soon(-8000))
    sweeps = [threading.Thread(target=world.ok, args=("creator sweep",)) for _ in range(2)]
    for sweep in sweeps:
        sweep.start()
    for sweep in sweeps:
        sweep.join()
    assert world.outcomes()["far-too-late"] == ("is_missed", "too_late"), "no consumer is needed to end it"
    world.ok("consumer send --once")
    assert world.arrivals() == {
        f"ExponentPushToken[{name}]": 1 for name in ("never-published", "lost-on-the-broker", "held-by-the-dead")
    }


@pytest.mark.parametrize("fault", ["server_error_after", "close_after"])
def test_an_unknown_outcome_is_recorded_and_sent_once_more(world: World, fault: str) -> None:
    world.user("anna")
    world.row("anna", soon(-1))
    world.sandbox.faults([{"fault": fault, "times": 1}])
    world.start("creator relay", **QUICK)
    world.start("consumer send", **QUICK)
    world.wait_until(lambda: world.messages.count_documents({"status": "sent"}) == 1, seconds=60)
    assert world.arrivals() == {"ExponentPushToken[anna]": 2}
    row = world.messages.find_one({})
    assert row is not None
    assert (row["unresolvedAttempts"], row["attempts"]) == (1, 2)
    [shown] = world.sandbox.devices()["ExponentPushToken[anna]"]["shown"]
    assert shown["replaced"] == 1, "the phone shows it once"


def test_a_category_that_gives_up_never_sends_twice(world: World) -> None:
    world.user("anna")
    world.row("anna", soon(-1))
    world.sandbox.faults([{"fault": "server_error_after", "times": 1}])
    policy = QUICK | {"CATEGORY_POLICY": '{"meal": {"on_unknown": "give_up"}}'}
    world.start("creator relay", **policy)
    world.start("consumer send", **policy)
    world.wait_until(lambda: world.messages.count_documents({"status": "failed"}) == 1, seconds=60)
    assert world.outcomes() == {"anna": ("failed", "outcome_unknown")}
    assert world.arrivals() == {"ExponentPushToken[anna]": 1}
