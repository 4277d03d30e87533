"""The demonstration's counting finds what is planted: lost, repeated, early, astray, and re-sent without a record."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deploy.local.demo.cities import cities_with_clear_clocks
from deploy.local.demo.ledger import Evidence, Tally, count, percentile
from deploy.local.demo.people import build_scenario
from deploy.local.demo.roles import CAST, Role
from deploy.local.demo.scenario import Edit, Expectation, Fate, Scenario
from deploy.local.demo.verdict import (
    Verdict,
    judge_counters,
    judge_haste,
    judge_rows,
    judge_skips,
    judge_tokens,
)

DUE = datetime(2026, 7, 1, 12, tzinfo=UTC)
LUNCH = "Time for lunch"


def expectation(number: int, fate: Fate = Fate.ARRIVES, reason: str = "", **other: Any) -> Expectation:
    made = Expectation(f"reminder-{number}", f"phone-{number}", f"token-{number}", LUNCH, "Oslo", fate, reason)
    return replace(made, **other)


def push(number: int, seconds: float = 1.0, **other: Any) -> dict[str, Any]:
    at = (DUE + timedelta(seconds=seconds)).isoformat()
    made = {"at": at, "messageId": f"row-{number}", "token": f"token-{number}", "title": LUNCH, "status": "ok"}
    return made | other


def phone(*titles: str) -> dict[str, Any]:
    return {"shown": [{"title": title} for title in titles]}


def tally(
    expectations: list[Expectation],
    entries: list[dict[str, Any]],
    phones: dict[str, Any] | None = None,
    unresolved: dict[str, int] | None = None,
) -> Tally:
    if phones is None:
        phones = {entry["token"]: phone(LUNCH) for entry in entries if entry["status"] == "ok"}
    return count(expectations, Evidence(entries, phones, unresolved or {}), DUE)


def faults(found: Tally) -> tuple[int, int, int, int]:
    return len(found.lost), found.repeated, found.early, len(found.strays)


def test_a_good_run_has_nothing_to_complain_of() -> None:
    found = tally([expectation(1), expectation(2)], [push(1), push(2, 3.0)])
    assert faults(found) == (0, 0, 0, 0)
    assert (found.accepted, found.resent_unknown) == (2, 0)
    assert found.lateness == [1.0, 3.0]


def test_an_occurrence_without_arrival_is_lost() -> None:
    found = tally([expectation(1), expectation(2)], [push(1)])
    assert [one.reminder_id for one in found.lost] == ["reminder-2"]


def test_a_refused_push_is_no_arrival() -> None:
    found = tally([expectation(1)], [push(1, status="error")])
    assert len(found.lost) == 1
    assert found.accepted == 0


def test_an_accepted_push_that_the_phone_does_not_show_is_lost() -> None:
    found = tally([expectation(1)], [push(1)], {"token-1": phone()})
    assert len(found.lost) == 1


def test_another_reminder_on_the_phone_does_not_stand_in_for_the_lost_one() -> None:
    found = tally([expectation(1)], [push(1, title="Drink")], {"token-1": phone("Drink")})
    assert len(found.lost) == 1
    assert len(found.strays) == 1


def test_one_expected_to_be_missed_or_failed_is_not_lost() -> None:
    found = tally([expectation(1, Fate.MISSED, "opted_out"), expectation(2, Fate.FAILED, "device_not_registered")], [])
    assert faults(found) == (0, 0, 0, 0)


@pytest.mark.parametrize(("fate", "strays"), [(Fate.MISSED, 1), (Fate.SKIPPED, 1), (Fate.FAILED, 0)])
def test_what_should_not_be_sent_and_is_accepted_is_astray(fate: Fate, strays: int) -> None:
    # A phone that is gone has its push accepted, and fails only by its receipt.
    assert len(tally([expectation(1, fate, "any")], [push(1)], {}).strays) == strays


def test_a_push_before_its_minute_is_early() -> None:
    found = tally([expectation(1), expectation(2)], [push(1, -0.001), push(2, 0.0)])
    assert found.early == 1


def test_two_on_the_screen_are_repeated_even_if_the_outcome_was_recorded_as_unknown() -> None:
    entries = [push(1), push(1, 31.0)]
    found = tally([expectation(1)], entries, {"token-1": phone(LUNCH, LUNCH)}, {"row-1": 1})
    assert found.repeated == 1
    assert found.repeats == [expectation(1)]


def test_a_recorded_resend_that_replaced_the_first_is_not_repeated() -> None:
    found = tally([expectation(1)], [push(1), push(1, 31.0)], None, {"row-1": 1})
    assert (found.repeated, found.resent_unknown) == (0, 1)
    assert found.resent_after == pytest.approx(30.0)


def test_a_resend_that_no_row_records_is_repeated() -> None:
    found = tally([expectation(1)], [push(1), push(1, 31.0)], None, {"row-1": 0})
    assert (found.repeated, found.resent_unknown) == (1, 0)


def test_one_recorded_unknown_outcome_excuses_one_copy_only() -> None:
    found = tally([expectation(1)], [push(1), push(1, 31.0), push(1, 62.0)], None, {"row-1": 1})
    assert (found.repeated, found.resent_unknown) == (1, 1)


def test_two_rows_for_one_occurrence_are_repeated_whatever_they_record() -> None:
    entries = [push(1), push(1, messageId="another")]
    found = tally([expectation(1)], entries, None, {"row-1": 1, "another": 1})
    assert found.repeated == 1


def test_a_copy_at_the_former_token_is_repeated_and_alone_it_is_lost() -> None:
    moved = expectation(1, former_tokens=("token-old",))
    old = push(1, token="token-old")
    both = tally([moved], [push(1), old])
    assert (len(both.lost), both.repeated) == (0, 1)
    assert len(tally([moved], [old]).lost) == 1


def test_percentiles() -> None:
    values = [float(value) for value in range(1, 101)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile(values, 1.0)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([], 0.5) == 0.0


# --- rows, planners, tokens and counters against the scenario ----------------------------------------------


def row(number: int, status: str = "success", reason: str = "confirmed") -> dict[str, Any]:
    return {
        "_id": f"row-{number}",
        "reminderId": f"reminder-{number}",
        "deviceId": f"phone-{number}",
        "status": status,
        "reason": reason,
        "localDate": "2026-07-01",
        "category": "meal",
        "label": "lunch",
        "resolvedAt": DUE + timedelta(seconds=2),
    }


def scenario_of(*expectations: Expectation) -> Scenario:
    return Scenario(DUE, expectations=list(expectations))


def test_a_row_that_met_its_fate_is_passed_over() -> None:
    play = scenario_of(expectation(1), expectation(2, Fate.MISSED, "opted_out"), expectation(3, Fate.SKIPPED, "bad"))
    assert judge_rows(play, [row(1), row(2, "is_missed", "opted_out")], Tally()) == []


@pytest.mark.parametrize(
    ("expected", "rows", "said"),
    [
        (expectation(1), [row(1, "pending", "")], "ended as pending/"),
        (expectation(1), [], "has 0 rows; no row"),
        (expectation(1), [row(1), row(1)], "has 2 rows"),
        (expectation(1, Fate.MISSED, "opted_out"), [row(1)], "ended as success/confirmed"),
        (expectation(1, Fate.MISSED, "opted_out"), [row(1, "is_missed", "too_late")], "ended for too_late"),
        (expectation(1, Fate.SKIPPED, "bad_token"), [row(1)], "was planned"),
    ],
)
def test_a_row_that_missed_its_fate_is_told_with_its_timeline(
    expected: Expectation, rows: list[dict[str, Any]], said: str
) -> None:
    [complaint] = judge_rows(scenario_of(expected), rows, Tally())
    assert said in complaint
    assert not rows or "resolvedAt +2.0 s" in complaint


def test_what_the_ledger_found_is_told_too() -> None:
    found = Tally(lost=[expectation(1)], repeats=[expectation(2)], strays=["x reached y"])
    complaints = judge_rows(scenario_of(expectation(1), expectation(2)), [row(1), row(2), row(9)], found)
    assert [word for word in ("stray", ": lost", ": repeated", "nobody asked") if any(word in c for c in complaints)]
    assert len(complaints) == 4


def test_a_second_copy_must_not_come_too_soon() -> None:
    assert judge_haste(Tally(), 13) == []
    assert judge_haste(Tally(resent_after=15.2), 13) == []
    assert len(judge_haste(Tally(resent_after=12.9), 13)) == 1


def test_planners_must_skip_and_plan_what_the_scenario_says() -> None:
    play = scenario_of(expectation(1), expectation(2), expectation(3, Fate.SKIPPED, "bad_token"))
    good = {"planned": 1, "skipped": {"bad_token": 1}}
    assert judge_skips(play, [good, good]) == []
    assert len(judge_skips(play, [good, good | {"skipped": {}}])) == 1
    assert len(judge_skips(play, [good, good | {"planned": 0}])) == 1


def test_exactly_the_dead_tokens_must_be_retired() -> None:
    play = Scenario(DUE, retired={"t1": "device_not_registered"})
    dead = {"_id": "t1", "isActive": False, "retiredReason": "device_not_registered"}
    assert judge_tokens(play, [dead, {"_id": "t2", "isActive": True}]) == []
    assert len(judge_tokens(play, [dead | {"isActive": True}])) == 1
    assert len(judge_tokens(play, [dead, dead | {"_id": "t2"}])) == 1
    assert judge_tokens(play, [dead | {"retiredReason": "moved"}])


def test_counters_must_add_up() -> None:
    counter = {name: row(1)[name] for name in ("localDate", "category", "label", "status", "reason")}
    assert judge_counters([row(1), row(2)], [counter | {"count": 2}]) == []
    assert judge_counters([row(1), row(2)], [counter | {"count": 3}])
    assert judge_counters([row(1)], [])


def test_the_closing_line_has_exactly_its_keys() -> None:
    found = tally([expectation(1)], [push(1)])
    closing = Verdict(found, 1, Counter({("success", "confirmed"): 1})).as_json()
    assert list(closing) == [
        "planned",
        "accepted",
        "success",
        "failed",
        "is_missed",
        "lost",
        "repeated",
        "resent_unknown",
        "early",
        "lateness_p50_s",
        "lateness_p99_s",
        "reasons",
    ]


@pytest.mark.parametrize(
    "found", [Tally(lost=[expectation(1)]), Tally(repeated=1), Tally(early=1)], ids=["lost", "repeated", "early"]
)
def test_any_fault_spoils_the_verdict(found: Tally) -> None:
    assert Verdict(Tally(), 1, Counter()).is_good
    assert not Verdict(found, 1, Counter()).is_good
    assert not Verdict(Tally(), 1, Counter(), ["a complaint"]).is_good


# --- the scenario itself ------------------------------------------------------------------------------------


def test_the_cast_is_complete_and_lives_around_the_world() -> None:
    play = build_scenario(DUE, cities_with_clear_clocks(DUE))
    zones = {user["timezone"] for user in play.users}
    offsets = {
        int(DUE.astimezone(city.zone).utcoffset().total_seconds()) % 3600 for city in cities_with_clear_clocks(DUE)
    }  # type: ignore[union-attr]
    assert 280 <= len(play.users) <= 320
    assert len(zones) >= 25
    assert {"Africa", "America", "Antarctica", "Asia", "Australia", "Europe", "Pacific"} <= {
        zone.partition("/")[0] for zone in zones
    }
    assert {1800, 2700} <= offsets
    assert {role: play.cast[role] for role, _ in CAST} == dict(CAST)
    assert {reminder["category"] for reminder in play.reminders} > {"meal", "mood", "activity", "safety", "reminder"}
    assert {fate for fate in Fate if play.expected(fate)} == set(Fate)


def test_no_two_expectations_share_a_place() -> None:
    play = build_scenario(DUE, cities_with_clear_clocks(DUE))
    places = Counter((one.token, one.title) for one in play.expectations)
    assert [place for place, times in places.items() if times > 1] == []


def test_whoever_relies_on_allowed_hours_does_not_wait_for_a_safety_message() -> None:
    play = build_scenario(DUE, cities_with_clear_clocks(DUE))
    narrowed = {deed.document_id for deed in play.after_planning[Role.NARROWS] if isinstance(deed, Edit)}
    asleep = {user["_id"] for user in play.users if user.get("preferences")}
    ids = narrowed | asleep
    assert len(ids) == 7
    assert not [one for one in play.reminders if one["userId"] in ids and one["category"] == "safety"]


def test_a_city_whose_clock_shows_the_minute_for_the_second_time_sits_out() -> None:
    # Copenhagen, 25 October 2026: 02:30 happens at 00:30 and at 01:30 UTC.
    first, second = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    assert "Copenhagen" in {city.name for city in cities_with_clear_clocks(first)}
    names = {city.name for city in cities_with_clear_clocks(second)}
    assert "Copenhagen" not in names
    assert "Kathmandu" in names
