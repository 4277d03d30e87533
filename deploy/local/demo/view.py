"""The live view: cities, progress bars and what is being done to the system. Plain lines where no terminal is."""

import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from deploy.local.demo.cities import City
from deploy.local.demo.progress import Place, Snapshot

_WIDE = 110
_PAGE_SECONDS = 4.0
_PLAIN_EVERY_SECONDS = 5.0
_TITLE = 1
_BARS = 4
_LEAST_LOG = 7
_FRAME = 2  # a panel's upper and lower edge
_TABLE_HEAD = 1
# A column is narrow; the closing tables spell the reasons out.
_SHORT = {
    "device_not_registered": "device gone",
    "outside_allowed_hours": "outside hours",
    "reminder_cancelled": "cancelled",
    "user_inactive": "inactive",
}


class Show(Protocol):
    """Where the demonstration is watched."""

    @property
    def story(self) -> list[str]:
        """All notes so far."""

    def note(self, text: str) -> None:
        """Tell what has just happened or is being done to the system."""

    def meet(self, cities: Sequence[City]) -> None:
        """Learn which cities take part."""

    def update(self, snapshot: Snapshot) -> None:
        """Show how things stand."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Notes:
    """The story so far, each line with the seconds since the beginning."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self._began = time.monotonic()

    def add(self, text: str) -> str:
        line = f"{time.monotonic() - self._began:6.1f} s  {text}"
        self.story.append(line)
        return line


class PlainShow:
    """For pipes and CI: one line per event, and now and then one of progress."""

    def __init__(self, console: Console) -> None:
        self._console, self._notes = console, _Notes()
        self._last = float("-inf")

    @property
    def story(self) -> list[str]:
        """All notes so far."""
        return self._notes.story

    def note(self, text: str) -> None:
        """Print a line."""
        self._print(self._notes.add(text))

    def meet(self, cities: Sequence[City]) -> None:
        """Say how many they are."""
        self.note(f"{len(cities)} cities take part: {', '.join(city.name for city in cities)}")

    def update(self, snapshot: Snapshot) -> None:
        """Print a line of progress, every five seconds."""
        if not snapshot.stages or time.monotonic() - self._last < _PLAIN_EVERY_SECONDS:
            return
        self._last = time.monotonic()
        stages = ", ".join(f"{stage.name} {stage.done}/{stage.total}" for stage in snapshot.stages)
        self._print(f"{'':10}{when(snapshot)}: {stages}")

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class LiveShow:
    """For a terminal: fills the screen while it runs and leaves it as it was."""

    def __init__(self, console: Console) -> None:
        self._console, self._notes = console, _Notes()
        self._cities: Sequence[City] = ()
        self._snapshot: Snapshot | None = None
        self._live = Live(console=console, screen=True, refresh_per_second=4, get_renderable=self._screen)

    @property
    def story(self) -> list[str]:
        """All notes so far."""
        return self._notes.story

    def note(self, text: str) -> None:
        """Add a line to the log."""
        self._notes.add(text)

    def meet(self, cities: Sequence[City]) -> None:
        """From now on the table has rows."""
        self._cities = cities

    def update(self, snapshot: Snapshot) -> None:
        """Draw this from now on."""
        self._snapshot = snapshot

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def _screen(self) -> RenderableType:
        width, height = self._console.size
        columns = 2 if width >= _WIDE else 1
        rows = max(1, math.ceil(len(self._cities) / columns))
        room = height - _TITLE - _BARS
        # What the cities do not need is the log's; on a small screen they turn pages.
        cities_height = min(rows + _TABLE_HEAD + _FRAME, max(room // 2, room - _LEAST_LOG))
        log_height = room - cities_height
        layout = Layout()
        layout.split_column(
            Layout(self._title(), size=_TITLE),
            Layout(self._bars(width), size=_BARS),
            Layout(self._world(columns, cities_height - _FRAME - _TABLE_HEAD), size=cities_height),
            Layout(self._log(log_height - _FRAME), size=log_height),
        )
        return layout

    def _title(self) -> RenderableType:
        text = Text.assemble((" Punktlig ", "bold reverse"))
        if self._console.width >= _WIDE:
            text.append("  reminders around the world, one minute, many accidents", style="dim")
        line = Table.grid(expand=True)
        line.add_column(no_wrap=True)
        line.add_column(justify="right", no_wrap=True)
        line.add_row(text, Text(f"{when(self._snapshot)} ", style="bold yellow"))
        return line

    def _bars(self, width: int) -> RenderableType:
        grid = Table.grid(padding=(0, 1), expand=True)
        grid.add_column(width=14, justify="right")
        grid.add_column(ratio=1)
        grid.add_column(width=9, justify="right")
        stages = self._snapshot.stages if self._snapshot else []
        for stage in stages:
            bar = ProgressBar(total=max(1, stage.total), completed=stage.done, width=max(10, width - 28))
            grid.add_row(Text(stage.name), bar, f"{stage.done}/{stage.total}")
        return grid

    def _world(self, columns: int, rows: int) -> RenderableType:
        rows = max(1, rows)
        pages = [self._cities[first : first + columns * rows] for first in range(0, len(self._cities), columns * rows)]
        if not pages:
            return Panel(Text("starting the servers and the services …", style="dim"), title="cities")
        page = int(time.monotonic() / _PAGE_SECONDS) % len(pages)
        grid = Table.grid(expand=True, padding=(0, 2, 0, 0))
        for _ in range(columns):
            grid.add_column(ratio=1)
        grid.add_row(*(self._table(pages[page][first : first + rows]) for first in range(0, columns * rows, rows)))
        title = "cities" if len(pages) == 1 else f"cities, page {page + 1} of {len(pages)}"
        return Panel(grid, title=title, border_style="blue")

    def _table(self, cities: Sequence[City]) -> RenderableType:
        table = Table(box=None, expand=True, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("city", width=12, no_wrap=True)
        for name in ("time", "sent", "waiting", "missed"):
            table.add_column(name, justify="right", width=max(5, len(name)))
        table.add_column("why", ratio=1, no_wrap=True, overflow="ellipsis", style="yellow")
        places = self._snapshot.places if self._snapshot else {}
        for city in cities:
            table.add_row(*self._row(city, places.get(city.zone_name, Place())))
        return table

    def _row(self, city: City, place: Place) -> tuple[RenderableType, ...]:
        assert self._snapshot is not None
        unsent = sum(place.unsent.values())
        return (
            city.name,
            Text(city.clock(self._snapshot.at), style="cyan"),
            Text(str(place.sent or "·"), style="green" if place.sent else "dim"),
            Text(str(place.waiting or "·"), style="" if place.waiting else "dim"),
            Text(str(unsent or "·"), style="yellow" if unsent else "dim"),
            why(place),
        )

    def _log(self, lines: int) -> RenderableType:
        width = self._console.width - 4
        shown = [Text(line[:width], no_wrap=True) for line in self.story[-lines:]]
        return Panel(Group(*shown), title="what happens", border_style="magenta")


def why(place: Place) -> str:
    """The reasons of what was not sent, most frequent first."""
    reasons = [(_SHORT.get(reason, reason).replace("_", " "), number) for reason, number in place.unsent.most_common()]
    return ", ".join(reason if number == 1 else f"{number} {reason}" for reason, number in reasons)


def when(snapshot: Snapshot | None) -> str:
    """The due instant, and how far off it is."""
    seconds = snapshot.seconds_to_due if snapshot else None
    if snapshot is None or snapshot.due is None or seconds is None:
        return "setting up"
    distance = f"in {seconds:.0f} s" if seconds > 0 else f"{-seconds:.0f} s ago"
    return f"due {snapshot.due:%H:%M} UTC, {distance}"
