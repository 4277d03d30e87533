"""Counts what really reached the phones: from the sandbox's ledger and its phones, never from our own rows.

One thing only is asked of the rows: whether a second copy was *recorded* as sent after an unknown outcome.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from deploy.local.demo.scenario import Expectation, Fate

Entry = Mapping[str, Any]
Place = tuple[str, str]
"""A token and a title: where a push went, and which reminder it was."""


@dataclass(frozen=True)
class Evidence:
    """What the sandbox saw, and what our rows admit.

    `entries` are the ledger's lines, `phones` what the owners of the tokens see, `unresolved` each row's number of
    attempts of unknown outcome by the row's id as pushes carry it.
    """

    entries: Sequence[Entry]
    phones: Mapping[str, Entry]
    unresolved: Mapping[str, int]


@dataclass
class Tally:
    """The count. `lateness` is in seconds after the due instant, one for each accepted push, sorted."""

    accepted: int = 0
    lost: list[Expectation] = field(default_factory=list)
    repeated: int = 0
    repeats: list[Expectation] = field(default_factory=list)
    resent_unknown: int = 0
    early: int = 0
    strays: list[str] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    first_lateness: list[float] = field(default_factory=list)
    """The same, of the first copy of each occurrence only."""
    resent_after: float | None = None
    """The shortest time from a copy to the next one of the same occurrence, in seconds; None without any."""


def count(expectations: Sequence[Expectation], evidence: Evidence, due: datetime) -> Tally:
    """What was lost, repeated, early or sent astray, for occurrences that are all due at `due` (aware UTC)."""
    accepted = [entry for entry in evidence.entries if entry["status"] == "ok"]
    by_place: dict[Place, list[Entry]] = defaultdict(list)
    for entry in accepted:
        by_place[entry["token"], entry["title"]].append(entry)
    tally = Tally(accepted=len(accepted))
    for expectation in expectations:
        places = [(token, expectation.title) for token in (expectation.token, *expectation.former_tokens)]
        copies = [entry for place in places for entry in by_place.pop(place, [])]
        _judge(tally, expectation, copies, evidence)
        _note_times(tally, sorted(_seconds_after(due, entry) for entry in copies))
    tally.strays += [f"{title!r} reached {token}, which awaits no such thing" for token, title in by_place]
    tally.lateness = sorted(_seconds_after(due, entry) for entry in accepted)
    tally.first_lateness.sort()
    tally.early = sum(seconds < 0 for seconds in tally.lateness)
    return tally


def _note_times(tally: Tally, times: Sequence[float]) -> None:
    tally.first_lateness += times[:1]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if gaps:
        tally.resent_after = min(gaps if tally.resent_after is None else [*gaps, tally.resent_after])


def _judge(tally: Tally, expectation: Expectation, copies: Sequence[Entry], evidence: Evidence) -> None:
    shown = _shown(evidence.phones, expectation.token, expectation.title)
    elsewhere = sum(_shown(evidence.phones, token, expectation.title) for token in expectation.former_tokens)
    if expectation.fate is Fate.ARRIVES and not shown:
        tally.lost.append(expectation)
    if copies and expectation.fate in {Fate.MISSED, Fate.SKIPPED}:
        tally.strays.append(f"{expectation.title!r} reached {expectation.device_id} ({expectation.reason} expected)")
    resent, unexcused = _second_copies(copies, evidence.unresolved)
    tally.resent_unknown += resent
    repeated = max(shown + elsewhere - 1, unexcused)
    if repeated > 0:
        tally.repeated += repeated
        tally.repeats.append(expectation)


def _second_copies(copies: Iterable[Entry], unresolved: Mapping[str, int]) -> tuple[int, int]:
    """How many rows were accepted again after an unknown outcome, and how many copies nothing excuses."""
    by_row = Counter(str(entry["messageId"]) for entry in copies)
    resent = unexcused = 0
    for row_id, times in by_row.items():
        excused = min(times - 1, unresolved.get(row_id, 0))
        resent += excused > 0
        unexcused += times - 1 - excused
    # A second row for the same occurrence is a repetition, whatever it says of itself.
    return resent, unexcused + max(0, len(by_row) - 1)


def _shown(phones: Mapping[str, Entry], token: str, title: str) -> int:
    return sum(one["title"] == title for one in phones.get(token, {}).get("shown", ()))


def _seconds_after(due: datetime, entry: Entry) -> float:
    return (datetime.fromisoformat(entry["at"]) - due).total_seconds()


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that at least `share` of them do not exceed; 0 of none."""
    if not values:
        return 0.0
    return values[max(0, math.ceil(share * len(values)) - 1)]
