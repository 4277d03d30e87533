"""From nothing to a reminder on a phone: every stage as its own process, on real parts."""

import json
from datetime import UTC, datetime, timedelta

from tests.acceptance.world import World, next_minute, soon, this_minute


def test_reminders_arrive_at_their_minute_and_bad_documents_hurt_nobody(world: World) -> None:
    due = next_minute(at_least=12)
    zones = ["Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Europe/Copenhagen", "Australia/Eucla"]
    for number, zone in enumerate(zones):
        world.person(f"good{number}", due=due, zone=zone)
    world.person("martian", due=due)
    world.database["users"].update_one({"_id": "martian"}, {"$set": {"timezone": "Mars/Base"}})
    world.person("odd-time", due=due)
    world.database["reminders"].update_one({"_id": "r-odd-time"}, {"$push": {"localTimes": "25:61"}})
    world.person("odd-category", due=due, category="gossip")
    world.person("odd-token", due=due)
    world.tokens.update_one({"userId": "odd-token"}, {"$set": {"token": "abc"}})

    relay = world.start("creator relay")
    send = world.start("consumer send", RECEIPT_DELAY_SECONDS="1")
    world.start("consumer receipts", RECEIPT_DELAY_SECONDS="1")
    planned = world.run("creator plan --json")
    assert planned.returncode == 0
    summary = json.loads(planned.stdout.splitlines()[-1])["summary"]
    skipped = {"bad_local_time": 1, "bad_timezone": 1, "bad_token": 1, "no_active_token": 1, "unknown_category": 1}
    assert summary == {"planned": 6, "already": 0, "skipped": skipped}
    logged = {line["document_id"]: line["reason"] for line in map(json.loads, planned.stderr.splitlines())}
    assert logged["martian"] == "bad_timezone"
    assert logged["r-odd-time"] == "bad_local_time"
    assert logged["r-odd-category"] == "unknown_category"
    assert "abc" not in planned.stderr

    expected = {f"ExponentPushToken[good{number}]" for number in range(len(zones))} | {"ExponentPushToken[odd-time]"}
    arrived = world.sandbox.wait_for(lambda ledger: len(ledger) >= len(expected), timeout=120)
    assert {entry["token"] for entry in arrived} == expected
    lateness = [(datetime.fromisoformat(entry["at"]) - due).total_seconds() for entry in arrived]
    assert min(lateness) >= 0, "early"
    assert max(lateness) < 30, "not at its minute"

    world.wait_until(lambda: world.messages.count_documents({"status": "success", "reason": "confirmed"}) == 6)
    assert send.get("/readyz")[0] == 200
    assert 'punktlig_accepted_total{category="meal"} 6.0' in send.get("/metrics")[1]
    assert relay.get("/healthz")[0] == 200
    world.ok("consumer counters")
    world.ok("consumer counters")
    shown = [json.loads(line) for line in world.ok("consumer counters --show --json").splitlines()]
    assert sum(line["count"] for line in shown) == 6
    assert {(line["category"], line["label"], line["status"], line["reason"]) for line in shown} == {
        ("meal", "lunch", "success", "confirmed")
    }
    assert all(service.terminate() == 0 for service in (relay, send))


def test_a_row_that_any_program_inserts_leaves_within_a_second(world: World) -> None:
    world.person("anna", due=this_minute())
    world.phone("anna", deviceId="second", token="ExponentPushToken[second]")
    world.start("creator relay").wait_for("relay_leads")
    world.start("consumer send").wait_for("broker_connected")
    scheduled_at = soon(0)
    alert = {"userId": "anna", "category": "safety", "label": "storm", "title": "Storm", "body": "Stay inside"}
    row_id = world.messages.insert_one({**alert, "scheduledAt": scheduled_at}).inserted_id
    arrived = world.sandbox.wait_for(lambda ledger: len(ledger) >= 2, timeout=30)
    assert {entry["token"] for entry in arrived} == {"ExponentPushToken[anna]", "ExponentPushToken[second]"}
    assert {entry["title"] for entry in arrived} == {"Storm"}
    latest = max(datetime.fromisoformat(entry["at"]) for entry in arrived)
    assert latest - scheduled_at < timedelta(seconds=5)
    world.wait_until(lambda: world.messages.count_documents({"status": "sent"}) == 2)
    row = world.messages.find_one({"_id": row_id})
    assert row is not None
    assert row["isDeleted"] is False
    assert "reminderId" not in row


def test_a_row_of_another_program_that_cannot_be_made_whole_ends_with_a_reason(world: World) -> None:
    world.person("anna", due=this_minute())
    bad = {
        "userId": "anna",
        "category": "safety",
        "label": "storm",
        "scheduledAt": "noon",
        "title": "Storm",
        "body": "x",
    }
    world.messages.insert_one(dict(bad))
    world.messages.insert_one({**bad, "scheduledAt": soon(0), "category": "gossip"})
    world.messages.insert_one({**bad, "scheduledAt": soon(0), "userId": "nobody"})
    world.ok("creator sweep")
    ended = sorted((row["status"], row["reason"]) for row in world.messages.find({"isDeleted": False}))
    assert ended == [("failed", "invalid_payload"), ("failed", "invalid_payload"), ("is_missed", "user_inactive")]


def test_wishes_are_read_again_at_send_time(world: World) -> None:
    for name in ("keeps", "opts-out", "leaves", "cancels", "sleeps", "logs-out", "hands-over", "renews"):
        world.person(name, due=this_minute())
    world.ok("creator plan")
    users, reminders = world.database["users"], world.database["reminders"]
    users.update_one({"_id": "opts-out"}, {"$set": {"preferences": {"categories": {"meal": False}}}})
    users.update_one({"_id": "leaves"}, {"$set": {"isActive": False}})
    reminders.update_one({"_id": "r-cancels"}, {"$set": {"isDeleted": True}})
    local = datetime.now(UTC) + timedelta(hours=5, minutes=45)
    hours = {"start": f"{local + timedelta(hours=2):%H:%M}", "end": f"{local + timedelta(hours=3):%H:%M}"}
    users.update_one({"_id": "sleeps"}, {"$set": {"preferences": {"allowedHours": hours}}})
    world.tokens.update_one({"userId": "logs-out"}, {"$set": {"isActive": False}})
    world.tokens.update_one({"userId": "hands-over"}, {"$set": {"isActive": False}})
    world.phone("stranger", deviceId="d-hands-over", token="ExponentPushToken[stranger]")
    world.tokens.update_one({"userId": "renews"}, {"$set": {"isActive": False}})
    world.phone("renews", token="ExponentPushToken[renewed]")
    world.ok("creator relay --once")
    world.ok("consumer send --once")
    assert world.outcomes() == {
        "keeps": ("sent", None),
        "opts-out": ("is_missed", "opted_out"),
        "leaves": ("is_missed", "user_inactive"),
        "cancels": ("is_missed", "reminder_cancelled"),
        "sleeps": ("is_missed", "outside_allowed_hours"),
        "logs-out": ("is_missed", "no_active_token"),
        "hands-over": ("is_missed", "superseded"),
        "renews": ("sent", None),
    }
    assert world.arrivals() == {"ExponentPushToken[keeps]": 1, "ExponentPushToken[renewed]": 1}


def test_what_is_late_by_more_than_the_grace_is_missed_not_sent(world: World) -> None:
    for name, age in (("late", 120), ("in-time", 30)):
        world.user(name)
        world.row(name, soon(-age))
    world.ok("creator relay --once", GRACE_SECONDS="100")
    world.ok("consumer send --once", GRACE_SECONDS="100")
    assert world.outcomes()["late"] == ("is_missed", "too_late")
    assert world.arrivals() == {"ExponentPushToken[in-time]": 1}


def test_an_edited_text_is_sent_as_it_reads_now(world: World) -> None:
    world.person("anna", due=this_minute())
    world.ok("creator plan")
    world.database["reminders"].update_one({"_id": "r-anna"}, {"$set": {"title": "Dinner"}})
    world.ok("creator relay --once")
    world.ok("consumer send --once")
    assert [entry["title"] for entry in world.sandbox.ledger()] == ["Dinner"]
    row = world.messages.find_one({"userId": "anna"})
    assert row is not None
    assert row["title"] == "Dinner"
