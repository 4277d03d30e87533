"""What a benchmark found: a figure beside its bare baseline, and whether it reaches its floor and its goal."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Verdict(StrEnum):
    """How a figure stands to what is asked of it."""

    PASS = "PASS"
    BELOW_GOAL = "below its goal"
    MISS = "MISS"
    TOLD = ""


@dataclass(frozen=True)
class Wanted:
    """What is asked of a number: at least `floor`, better `goal`; with `at_most` the other way round."""

    floor: float
    goal: float
    at_most: bool = False

    def verdict(self, number: float) -> Verdict:
        """How `number` stands to it."""
        if self._falls_short(number, self.floor):
            return Verdict.MISS
        return Verdict.BELOW_GOAL if self._falls_short(number, self.goal) else Verdict.PASS

    def __str__(self) -> str:
        bound = "at most" if self.at_most else "at least"
        if self.goal == self.floor:
            return f"{bound} {self.floor:g}"
        return f"{bound} {self.floor:g}, goal {self.goal:g}"

    def _falls_short(self, number: float, bound: float) -> bool:
        return number > bound if self.at_most else number < bound


@dataclass(frozen=True)
class Figure:
    """One line of the result. `number` is what is judged (often a ratio), `detail` the absolute numbers behind it."""

    name: str
    number: float
    unit: str
    detail: str
    wanted: Wanted | None = None

    @property
    def verdict(self) -> Verdict:
        """PASS, below its goal, MISS, or nothing if nothing was asked."""
        return Verdict.TOLD if self.wanted is None else self.wanted.verdict(self.number)

    def __str__(self) -> str:
        asked = f" ({self.wanted})" if self.wanted else ""
        return f"{self.name:<34} {_short(self.number):>8} {self.unit:<12} {self.verdict:<15} {self.detail}{asked}"


@dataclass
class Duel:
    """Rates of ours and of the bare baseline, measured by turns on the same servers."""

    ours: list[float] = field(default_factory=list)
    bare: list[float] = field(default_factory=list)

    def figure(self, name: str, unit: str, wanted: Wanted) -> Figure:
        """The median of the rounds' ratios: what else the machine does burdens both sides of a round alike."""
        ours, bare = statistics.median(self.ours), statistics.median(self.bare)
        ratio = statistics.median(one / other for one, other in zip(self.ours, self.bare, strict=True))
        detail = f"{ours:,.0f} {unit} {_spread(self.ours)}; bare {bare:,.0f} {_spread(self.bare)}"
        return Figure(name, ratio, "x bare", detail, wanted)


def percentile(numbers: Iterable[float], share: float) -> float:
    """The smallest of `numbers` that at least `share` of them do not exceed."""
    ordered = sorted(numbers)
    return ordered[min(len(ordered) - 1, max(0, -(-int(len(ordered) * share * 1000) // 1000) - 1))]


def lateness_figure(name: str, late: Sequence[float], detail: str, wanted: Wanted | None = None) -> Figure:
    """The 95th percentile, with the median and the extremes beside it; seconds."""
    spread = f"p50 {percentile(late, 0.5):.3f} s, first {min(late):.3f} s, last {max(late):.3f} s"
    return Figure(name, percentile(late, 0.95), "s at p95", f"{spread}; {detail}", wanted)


def _spread(numbers: Sequence[float]) -> str:
    return f"[{min(numbers):,.0f}..{max(numbers):,.0f}]"


def _short(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
