"""What stays on the screen: the story, the closing table, the counters as analysts see them, and the verdict."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from deploy.local.demo.ledger import percentile
from deploy.local.demo.roles import CATEGORIES, Role
from deploy.local.demo.scenario import Scenario
from deploy.local.demo.verdict import Verdict

_COMPLAINTS_SHOWN = 40


def print_closing(console: Console, scenario: Scenario, verdict: Verdict, logs: Path) -> None:
    """Print everything but the last line."""
    console.print()
    console.print(_cast(scenario))
    console.print()
    console.print(_outcome(verdict))
    console.print()
    console.print(_counters(verdict))
    console.print()
    _say_verdict(console, verdict, logs)


def print_story(console: Console, story: Sequence[str]) -> None:
    """Print what has happened, for those who watched the live view."""
    for line in story:
        console.print(line, markup=False, highlight=False)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def _cast(scenario: Scenario) -> Table:
    table = _table("Who took part")
    table.add_column("how many", justify="right")
    table.add_column("people who")
    table.add_column("must end as", style="cyan")
    for role in Role:
        table.add_row(str(scenario.cast[role]), role.value, _FATES[role])
    return table


_FATES = {
    Role.PLAIN: "arrives",
    Role.OPTS_OUT: "is_missed / opted_out",
    Role.LEAVES: "is_missed / user_inactive",
    Role.CANCELS: "is_missed / reminder_cancelled",
    Role.NARROWS: "is_missed / outside_allowed_hours",
    Role.LOGS_IN_ANEW: "arrives, at the new token only",
    Role.HANDS_OVER: "is_missed / superseded",
    Role.UNREGISTERED: "failed / device_not_registered, token retired",
    Role.GONE: "failed / device_not_registered, token retired",
    Role.ASLEEP: "never planned",
    Role.BAD_ZONE: "never planned",
    Role.BAD_TIME: "the good one arrives, the bad one is skipped",
    Role.BAD_CATEGORY: "the good one arrives, the bad one is skipped",
    Role.BAD_TOKEN: "arrives on the good phone",
}


def _outcome(verdict: Verdict) -> Table:
    closing, tally = verdict.as_json(), verdict.tally
    table = _table("What became of it")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_column("counted from", style="dim")

    def add(name: str, value: object, source: str, *, must_be_zero: bool = False) -> None:
        style = ("bold red" if value else "bold green") if must_be_zero else ""
        table.add_row(name, str(value), source, style=style)

    add("planned", closing["planned"], "rows, as many as the two planners report")
    add("pushes accepted", closing["accepted"], "the sandbox's ledger, re-sends and vanished phones included")
    for status in ("success", "failed", "is_missed"):
        add(status, closing[status], f"rows: {_reasons(verdict.outcomes, status)}")
    add("lost", closing["lost"], "expected on a phone, and not on it", must_be_zero=True)
    add("repeated", closing["repeated"], "shown twice, or accepted again without a record", must_be_zero=True)
    add("early", closing["early"], "accepted before its minute", must_be_zero=True)
    add(
        "sent again", closing["resent_unknown"], "outcome unknown, recorded as such; it replaced the first on the phone"
    )
    late, first = tally.lateness, tally.first_lateness
    if tally.resent_after is not None:
        add("… soonest", f"{tally.resent_after:.1f} s", "from the first copy to the second")
    add("lateness p50", f"{percentile(late, 0.5):.2f} s", "every accepted push; the sandbox is slowed on purpose")
    add("lateness p99", f"{percentile(late, 0.99):.2f} s", "the same; re-sends after unknown outcomes weigh here")
    add(
        "… first copy p99",
        f"{percentile(first, 0.99):.2f} s",
        "without the re-sends",
    )
    return table


def _reasons(outcomes: Counter[tuple[str, str]], status: str) -> str:
    return ", ".join(f"{number} {reason}" for (of, reason), number in sorted(outcomes.items()) if of == status)


def _counters(verdict: Verdict) -> Table:
    table = _table("The counters as analysts see them, local dates and labels added up")
    table.add_column("status")
    table.add_column("reason")
    sums: Counter[tuple[str, str, str]] = Counter()
    for one in verdict.counters:
        sums[one["status"], one["reason"], one["category"]] += one["count"]
    for category in CATEGORIES:
        table.add_column(category, justify="right")
    for status, reason in sorted({key[:2] for key in sums}):
        counts = (sums[status, reason, category] for category in CATEGORIES)
        table.add_row(status, reason, *(str(number or "·") for number in counts))
    return table


def _say_verdict(console: Console, verdict: Verdict, logs: Path) -> None:
    if verdict.is_good:
        console.print("Every reminder met its fate: nothing lost, nothing repeated, nothing early.", style="bold green")
        return
    console.print(f"NOT as expected; the processes' logs are in {logs}", style="bold red", soft_wrap=True)
    for line in verdict.complaints[:_COMPLAINTS_SHOWN]:
        console.print(f"- {line}", markup=False, highlight=False, soft_wrap=True)
    if len(verdict.complaints) > _COMPLAINTS_SHOWN:
        console.print(f"… and {len(verdict.complaints) - _COMPLAINTS_SHOWN} more")
