"""The commands of the planning half: `python -m creator plan | relay | sweep | indexes`."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from creator.plan import PlanOptions, PlanReport
from creator.shards import WHOLE, Shard, plan_in_shards, processors
from creator.wiring import build_planner, build_relay, build_sweeper
from shared.adapters.mongo.indexes import create_indexes, missing_indexes
from shared.adapters.mongo.wire_ids import to_text
from shared.commandline import new_app, run_app
from shared.domain.envelope import format_instant, parse_instant
from shared.process import Process, run_command
from shared.runtime.lifecycle import EXIT_DONE, EXIT_FAULT
from shared.runtime.settings import LONGEST_HORIZON_HOURS

app = new_app("Plan reminders and put them on the broker.")

_FIRST_YEAR, _LAST_YEAR = 1971, 9000
_SHOWN_IDS = ("userId", "deviceId", "reminderId")
_SHOWN = ("category", "label", "localDate", "localTime", "timezone")


def _instant(text: str) -> datetime:
    try:
        instant = parse_instant(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not _FIRST_YEAR <= instant.year <= _LAST_YEAR:
        raise typer.BadParameter(f"the year must lie between {_FIRST_YEAR} and {_LAST_YEAR}")
    return instant


def _hours(value: float | None) -> float | None:
    if value is not None and not 0 < value <= LONGEST_HORIZON_HOURS:
        raise typer.BadParameter(f"must be above 0 and at most {LONGEST_HORIZON_HOURS}")
    return value


@app.command()
def plan(
    at: Annotated[
        datetime | None,
        typer.Option(parser=_instant, metavar="INSTANT", help="Plan as if it were 2026-03-29T07:00:00Z."),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(callback=_hours, metavar="HOURS", help="How far to look; else HORIZON_HOURS."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be planned and write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON lines.")] = False,
) -> None:
    """Insert the messages that users should get in the coming hours."""

    def command(process: Process) -> int:
        hours = process.settings.horizon_hours if horizon is None else horizon
        show = (_show_json if as_json else _show_text) if dry_run else None

        def plan_shard(shard: Shard) -> PlanReport:
            process.check_indexes()
            options = PlanOptions(timedelta(hours=hours), at, show, shard.has)
            return build_planner(process).run(process.server_now(), options)

        report = plan_shard(WHOLE) if dry_run else plan_in_shards(processors(), plan_shard)
        if as_json:
            print(json.dumps({"summary": report.summary()}))
        else:
            skipped = ", ".join(f"{count} {reason}" for reason, count in report.summary()["skipped"].items())
            would = "would be " if dry_run else ""
            print(
                f"{report.planned} {would}planned, {report.already} already there, {report.moved} {would}moved, "
                f"{report.deleted} {would}deleted; skipped: {skipped or 'nothing'}"
            )
        return EXIT_FAULT if report.errors else EXIT_DONE

    raise typer.Exit(run_command("plan", command))


@app.command()
def relay(
    once: Annotated[bool, typer.Option("--once", help="Put on the broker what is due now, then stop.")] = False,
) -> None:
    """Put rows on the broker as they appear, and sweep."""

    def command(process: Process) -> None:
        process.check_indexes()
        process.check_broker()
        stage = build_relay(process)
        if once:
            print(f"{stage.run_once()} put on the broker")
            return
        with process.serving(lambda: {"relay": stage.trouble} if stage.trouble else {}) as shutdown:
            stage.run(shutdown)

    raise typer.Exit(run_command("relay", command))


@app.command()
def sweep() -> None:
    """End, ring again or settle whatever should have happened by now; for a cron where no relay runs."""

    def command(process: Process) -> None:
        process.check_indexes()
        done = build_sweeper(process).run(process.server_now())
        print(", ".join(f"{count} {action}" for action, count in sorted(done.items()) if count) or "nothing to do")

    raise typer.Exit(run_command("sweep", command))


@app.command()
def indexes(
    check: Annotated[bool, typer.Option("--check", help="Only say what is missing; exit 1 if anything is.")] = False,
) -> None:
    """Create the indexes that every promise rests on."""

    def command(process: Process) -> int:
        if check:
            missing = missing_indexes(process.database)
            print("\n".join(f"missing or different: {name}" for name in missing) or "all indexes are there")
            return EXIT_FAULT if missing else EXIT_DONE
        created = create_indexes(process.database)
        print("\n".join(f"created {name}" for name in created) or "all indexes are there")
        return EXIT_DONE

    raise typer.Exit(run_command("indexes", command))


def _show_json(row: dict[str, Any]) -> None:
    line = {name: to_text(row[name]) for name in _SHOWN_IDS}
    line |= {name: row[name] for name in _SHOWN}
    print(json.dumps({**line, "scheduledAt": format_instant(row["scheduledAt"])}, ensure_ascii=False))


def _show_text(row: dict[str, Any]) -> None:
    print(
        f"{format_instant(row['scheduledAt'])}  {row['localDate']} {row['localTime']} {row['timezone']}  "
        f"{row['category']}/{row['label']}  user {to_text(row['userId'])} on {to_text(row['deviceId'])}"
    )


if __name__ == "__main__":
    run_app(app, "creator")
