"""The commands of the sending half: `python -m consumer send | receipts | counters`."""

import csv
import json
import sys
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Annotated, Any

import typer

from consumer.counters import run_counters
from consumer.wiring import Service, build_receipts, build_send
from shared.adapters.mongo.counters import CounterStore, Span
from shared.commandline import new_app, run_app
from shared.process import Process, run_command
from shared.runtime.lifecycle import EXIT_DONE, EXIT_FAULT, Shutdown
from shared.runtime.settings import BadSettings

app = new_app("Send reminders and learn what became of them.")

_COLUMNS = ("localDate", "category", "label", "status", "reason", "count", "final")
Once = Annotated[bool, typer.Option("--once", help="Do what is there, then stop.")]


@app.command()
def send(
    category: Annotated[list[str] | None, typer.Option("--category", help="Only this one; may be repeated.")] = None,
    once: Once = False,
) -> None:
    """Send what is due, for all categories or some."""

    def command(process: Process) -> int:
        known = process.settings.categories
        for name in category or ():
            if name not in known:
                raise BadSettings(f"--category {name}: not one of PUNKTLIG_CATEGORIES ({', '.join(known)})")
        return _serve(process, lambda shutdown: build_send(process, shutdown, category or known), once)

    raise typer.Exit(run_command("send", command))


@app.command()
def receipts(once: Once = False) -> None:
    """Ask Expo what became of what was sent."""
    raise typer.Exit(
        run_command("receipts", lambda process: _serve(process, lambda stop: build_receipts(process, stop), once))
    )


def _serve(process: Process, build: Callable[[Shutdown], Service], once: bool) -> int:
    process.check_indexes()
    process.check_broker()
    services: list[Service] = []

    def complaints() -> dict[str, str]:
        return dict(services[0].complaints()) if services else {"start": "not ready yet"}

    with process.serving(complaints) as shutdown:
        services.append(build(shutdown))
        return EXIT_DONE if services[0].intake.run(once=once) else EXIT_FAULT


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date like 2026-03-29") from None


@app.command()
def counters(
    show: Annotated[bool, typer.Option("--show", help="Only show the counters.")] = False,
    first: Annotated[
        str | None,
        typer.Option("--from", parser=_day, metavar="DATE", help="First local date, like 2026-03-29."),
    ] = None,
    last: Annotated[str | None, typer.Option("--to", parser=_day, metavar="DATE", help="Last local date.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
) -> None:
    """Recount the open days from their rows, seal what is over, delete what is old; or show the counters."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv: choose one")
    if (first or last or as_json or as_csv) and not show:
        raise typer.BadParameter("--from, --to, --json and --csv go with --show")
    if first and last and first > last:
        raise typer.BadParameter(f"--from {first} lies after --to {last}")

    def command(process: Process) -> None:
        store = CounterStore(process.database)
        if show:
            _show(store.read(Span(first, last)), "json" if as_json else "csv" if as_csv else "text")
            return
        process.check_indexes()
        retention = timedelta(days=process.settings.retention_days)
        report = run_counters(store, process.server_now(), retention)
        print(f"days counted: {report.counted}, sealed: {report.sealed}; old rows deleted: {report.purged_rows}")

    raise typer.Exit(run_command("counters", command))


def _show(rows: Iterable[dict[str, Any]], form: str) -> None:
    if form == "json":
        for row in rows:
            print(json.dumps({name: row[name] for name in _COLUMNS}, ensure_ascii=False))
    elif form == "csv":
        writer = csv.DictWriter(sys.stdout, _COLUMNS)
        writer.writeheader()
        writer.writerows({**row, "final": json.dumps(row["final"])} for row in rows)
    else:
        _show_table(rows)


def _show_table(rows: Iterable[dict[str, Any]]) -> None:
    line = "{localDate:<10}  {name:<28} {status:<10} {reason:<24} {count:>8}  {day}"
    head = {"localDate": "date", "status": "status", "reason": "reason", "count": "count"}
    print(line.format(**head, name="category/label", day="day"))
    empty = True
    for row in rows:
        empty = False
        print(line.format(**row, name=f"{row['category']}/{row['label']}", day="sealed" if row["final"] else "open"))
    if empty:
        print("none for these dates; `python -m consumer counters` derives them from the rows")


if __name__ == "__main__":
    run_app(app, "consumer")
