"""Compares what became of every occurrence with what was expected of it, and says what is wrong in words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deploy.local.demo.ledger import Tally, percentile
from deploy.local.demo.scenario import Expectation, Fate, Scenario

Document = dict[str, Any]

_STATUS = {Fate.ARRIVES: "success", Fate.MISSED: "is_missed", Fate.FAILED: "failed"}
_TERMINAL = ("success", "failed", "is_missed")
_STAMPS = ("createdAt", "enqueuedAt", "attemptStartedAt", "sentAt", "resolvedAt")


@dataclass
class Verdict:
    """How the demonstration ended. `complaints` are lines that say what was not as expected; none is success."""

    tally: Tally
    planned: int
    outcomes: Counter[tuple[str, str]]
    complaints: list[str] = field(default_factory=list)
    counters: list[Document] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether everything was as it must be."""
        tally = self.tally
        return not (tally.lost or tally.repeated or tally.early or self.complaints)

    def as_json(self) -> dict[str, Any]:
        """The closing line: lateness in seconds, `reasons` counts rows by their reason."""
        statuses: Counter[str] = Counter()
        reasons: Counter[str] = Counter()
        for (status, reason), number in sorted(self.outcomes.items()):
            statuses[status] += number
            reasons[reason] += number
        tally = self.tally
        return {
            "planned": self.planned,
            "accepted": tally.accepted,
            **{status: statuses[status] for status in _TERMINAL},
            "lost": len(tally.lost),
            "repeated": tally.repeated,
            "resent_unknown": tally.resent_unknown,
            "early": tally.early,
            "lateness_p50_s": round(percentile(tally.lateness, 0.5), 3),
            "lateness_p99_s": round(percentile(tally.lateness, 0.99), 3),
            "reasons": dict(reasons),
        }


def judge_rows(scenario: Scenario, rows: Sequence[Document], tally: Tally) -> list[str]:
    """A complaint for every occurrence that did not meet its fate, with what its row went through."""
    by_key: dict[tuple[str, str], list[Document]] = {}
    for row in rows:
        by_key.setdefault((row.get("reminderId", ""), row.get("deviceId", "")), []).append(row)
    complaints = [f"stray: {text}" for text in tally.strays]
    missing = {(one.reminder_id, one.device_id): "lost" for one in tally.lost}
    twice = {(one.reminder_id, one.device_id): "repeated" for one in tally.repeats}
    for expectation in scenario.expectations:
        key = (expectation.reminder_id, expectation.device_id)
        found = by_key.pop(key, [])
        fault = missing.get(key) or twice.get(key) or _row_fault(expectation, found)
        if fault:
            complaints.append(f"{_described(expectation)}: {fault}; {timeline(found, scenario.due)}")
    complaints += [f"nobody asked for the row of {key[0]} on {key[1]}" for key in by_key]
    return complaints


def _row_fault(expectation: Expectation, rows: Sequence[Document]) -> str:
    if expectation.fate is Fate.SKIPPED:
        return "was planned" if rows else ""
    if len(rows) != 1:
        return f"has {len(rows)} rows"
    status, reason = rows[0]["status"], rows[0]["reason"]
    if status != _STATUS[expectation.fate]:
        return f"ended as {status}/{reason}"
    return f"ended for {reason}" if expectation.reason not in {"", reason} else ""


def _described(expectation: Expectation) -> str:
    fate = f"{expectation.fate} {expectation.reason}".strip()
    return f"{expectation.reminder_id} on {expectation.device_id} in {expectation.city} (expected: {fate})"


def timeline(rows: Iterable[Document], due: datetime) -> str:
    """What happened to rows, in seconds from the due instant."""
    lives = []
    for row in rows:
        stamps = [(name, row.get(name)) for name in _STAMPS]
        told = [f"{name} {(at - due).total_seconds():+.1f} s" for name, at in stamps if isinstance(at, datetime)]
        numbers = f"attempts {row.get('attempts')}, unresolved {row.get('unresolvedAttempts')}"
        lives.append(f"row {row['_id']} {row['status']}/{row['reason']}: {', '.join(told)}; {numbers}")
    return "; ".join(lives) or "no row"


def judge_haste(tally: Tally, least_seconds: float) -> list[str]:
    """A second copy may follow only after a pause, in which the first one's answer might still have come."""
    if tally.resent_after is None or tally.resent_after >= least_seconds:
        return []
    return [f"a second copy came {tally.resent_after:.1f} s after the first; at least {least_seconds:g} s must pass"]


def judge_skips(scenario: Scenario, summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the planners said they skipped, against the scenario; they plan all of it once between them."""
    wanted = Counter(one.reason for one in scenario.expected(Fate.SKIPPED))
    complaints = [
        f"planner {number} skipped {dict(summary['skipped'])} instead of {dict(wanted)}"
        for number, summary in enumerate(summaries, 1)
        if Counter(summary["skipped"]) != wanted
    ]
    planned = sum(summary["planned"] for summary in summaries)
    if planned != scenario.planned:
        complaints.append(f"the planners made {planned} rows instead of {scenario.planned}")
    return complaints


def judge_tokens(scenario: Scenario, tokens: Iterable[Document]) -> list[str]:
    """Exactly the dead and the replaced tokens are retired, each for the right reason."""
    retired = {str(one["_id"]): one.get("retiredReason") for one in tokens if not one["isActive"]}
    wrong = {*retired.items()} ^ {*scenario.retired.items()}
    return [f"token {name}: retired as {reason} is not as expected" for name, reason in sorted(wrong, key=str)]


def judge_counters(rows: Sequence[Document], counters: Sequence[Document]) -> list[str]:
    """The counters must add up to the rows exactly."""
    names = ("localDate", "category", "label", "status", "reason")
    counted = {tuple(one[name] for name in names): one["count"] for one in counters}
    real = Counter(tuple(row[name] for name in names) for row in rows if row["status"] in _TERMINAL)
    wrong = {*counted.items()} ^ {*real.items()}
    return [f"counter {'/'.join(map(str, key))}: {number} is not what the rows say" for key, number in sorted(wrong)]
