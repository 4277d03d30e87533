"""Starting, stopping and refusing to start."""

import time
from datetime import timedelta

import pytest

from deploy.local.stack import LocalStack
from tests.acceptance.world import World, soon

COMMANDS = ("creator plan", "creator relay", "creator sweep", "creator indexes", "consumer send", "consumer receipts")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCH_SIZE", "0"),
        ("BATCH_SIZE", "101"),
        ("HORIZON_HOURS", "soon"),
        ("GRACE_SECONDS", "-1"),
        ("CLAIM_SECONDS", "5"),
        ("MAX_ATTEMPTS", "0"),
        ("STOMP_URLS", "http://localhost"),
        ("EXPO_URL", "exp.host"),
        ("CATEGORIES", "meal,meal"),
        ("CATEGORY_POLICY", "{"),
        ("CATEGORY_POLICY", '{"meal": {"grace": 5}}'),
        ("MASS_RETIRE_SHARE", "2"),
        ("LOG_FORMAT", "xml"),
        ("MONGO_URL", "postgres://x"),
        ("GRACE_SECOND", "60"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_line_that_names_it(world: World, name: str, value: str) -> None:
    command = COMMANDS[len(name + value) % len(COMMANDS)]
    done = world.run(command, **{name: value})
    assert done.returncode == 2
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert f"PUNKTLIG_{name}" in line


def test_a_missing_index_stops_services_and_names_the_command_that_mends_it(world: World) -> None:
    world.messages.drop_index("occurrence_once")
    for command in ("creator plan", "creator relay", "creator sweep", "consumer send", "consumer receipts"):
        done = world.run(command)
        assert done.returncode == 2, command
        assert "notification_messages.occurrence_once" in done.stderr
        assert "python -m creator indexes" in done.stderr
    assert world.run("creator indexes --check").returncode == 1
    world.ok("creator indexes")
    world.ok("creator indexes --check")


def test_wrong_usage_is_refused(world: World) -> None:
    for wrong in (
        "creator plan --at yesterday",
        "creator plan --at 2026-03-29T07:00:00",
        "creator plan --horizon 0",
        "consumer send --category gossip",
        "consumer counters --show --from spring",
        "consumer counters --json",
        "creator fly",
    ):
        assert world.run(wrong).returncode == 2, wrong


def test_a_wrong_log_in_at_the_broker_is_told_and_not_repeated(world: World) -> None:
    done = world.run("consumer send", STOMP_PASSCODE="wrong")
    assert done.returncode in {1, 2}, "the broker sometimes hangs up before its reason arrives"
    assert "broker" in done.stderr
    assert "wrong" not in done.stderr.replace("wrong_", "")


def test_sigterm_finishes_what_is_in_hand_and_leaves_nothing_claimed(world: World) -> None:
    world.user("anna")
    world.row("anna", soon(-1))
    world.sandbox.faults([{"fault": "delay", "ms": 1500}])
    world.ok("creator relay --once")
    send = world.start("consumer send")
    world.wait_until(lambda: world.messages.count_documents({"attemptId": {"$ne": None}}) == 1)
    assert send.terminate() == 0
    assert world.outcomes() == {"anna": ("sent", None)}
    assert world.messages.count_documents({"claim": {"$ne": None}}) == 0
    assert world.arrivals() == {"ExponentPushToken[anna]": 1}


def test_a_second_sigterm_exits_at_once(world: World) -> None:
    world.user("anna")
    world.row("anna", soon(-1))
    world.sandbox.faults([{"fault": "hang", "seconds": 20}])
    world.ok("creator relay --once")
    send = world.start("consumer send")
    world.wait_until(lambda: world.messages.count_documents({"attemptId": {"$ne": None}}) == 1)
    send.process.terminate()
    with pytest.raises(Exception, match="timed out"):
        send.process.wait(1)
    asked = time.monotonic()
    send.process.terminate()
    assert send.process.wait(10) == 1
    assert timedelta(seconds=time.monotonic() - asked) < timedelta(seconds=5)


def test_a_frozen_broker_is_noticed_and_survived(world: World, stack: LocalStack) -> None:
    relay = world.start("creator relay", BACKSTOP_SECONDS="3")
    relay.wait_for("relay_leads")
    send = world.start("consumer send")
    send.wait_for("broker_connected")
    stack.broker.pause()
    try:
        send.wait_for("broker_connection_lost")
    finally:
        stack.broker.resume()
    world.user("anna")
    world.row("anna", soon(1))
    world.sandbox.wait_for(lambda ledger: len(ledger) == 1, timeout=60)


def test_what_no_consumer_can_read_is_kept_with_its_reason(world: World, stack: LocalStack) -> None:
    body = b"\xff\x00 not a frame"
    with stack.broker.dialogue(20, as_ops=True) as ops:
        ops.send_with_receipt({"destination": "/queue/notifications.meal", "persistent": "true"}, body, 20)
        world.ok("consumer send --once")
        ops.subscribe("/queue/DLQ.notifications.meal")
        frame = ops.expect("MESSAGE", 20)
    assert frame.body == body
    assert frame.headers["reason"].startswith("not JSON")
