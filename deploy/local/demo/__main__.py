"""`python -m deploy.local.demo`: the whole pipeline on real parts, with everything going wrong."""

import argparse
import json
import shutil
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from rich.console import Console

from deploy.local.demo.closing import print_closing, print_story
from deploy.local.demo.errors import DemoError
from deploy.local.demo.processes import Fleet
from deploy.local.demo.progress import Progress
from deploy.local.demo.scenario import Scenario
from deploy.local.demo.story import SETTINGS, Story, Theatre
from deploy.local.demo.verdict import Verdict
from deploy.local.demo.view import LiveShow, PlainShow, Show
from deploy.local.errors import StackError
from deploy.local.lock import FolderLock
from deploy.local.packages import PROJECT
from deploy.local.sandbox.process import SandboxError, SandboxProcess
from deploy.local.stack import LocalStack, StackFolder
from shared.adapters.mongo.client import connect

_DEFAULT_FOLDER = PROJECT / ".local" / "demo"
_BUSY_SECONDS = 1.0
_INTERRUPTED = 128 + signal.SIGINT
_PLAIN_WIDTH = 120


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; 0 if everything met its fate, 1 if not, 2 if a server cannot be had."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.demo", description=__doc__)
    parser.add_argument("--folder", type=Path, default=_DEFAULT_FOLDER, help="where servers and logs keep their files")
    folder = parser.parse_args(arguments).folder.resolve()
    signal.signal(signal.SIGTERM, _on_sigterm)
    # A terminal or file whose encoding lacks a sign gets a question mark, not an exception.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    console = _console()
    try:
        with FolderLock(folder, _BUSY_SECONDS):
            return _run(console, folder)
    except StackError as fault:
        print(f"demo: {fault}", file=sys.stderr)
        return fault.exit_code
    except (DemoError, SandboxError, TimeoutError) as fault:
        print(f"demo: {fault}\ndemo: the logs are in {folder / 'logs'}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; everything it had started is stopped", file=sys.stderr)
        return _INTERRUPTED


def _run(console: Console, folder: Path) -> int:
    logs = folder / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    stack = StackFolder(folder / "stack")
    stack.stop()
    stack.wipe()
    show: Show = LiveShow(console) if _is_lively(console) else PlainShow(console)
    try:
        scenario, verdict = _perform(folder / "stack", logs, show)
    finally:
        if _is_lively(console):
            print_story(console, show.story)
    print_closing(console, scenario, verdict, logs)
    print(json.dumps(verdict.as_json()), flush=True)
    return 0 if verdict.is_good else 1


def _console() -> Console:
    """The terminal, or something without any control codes where there is none, whatever the environment says."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=_PLAIN_WIDTH, force_terminal=False, color_system=None)


def _is_lively(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal


def _perform(stack_folder: Path, logs: Path, show: Show) -> tuple[Scenario, Verdict]:
    with ExitStack() as open_now:
        stack = open_now.enter_context(LocalStack(stack_folder))
        sandbox = open_now.enter_context(SandboxProcess(f"--ledger-file={_made(logs) / 'ledger.jsonl'}"))
        environment = {**stack.environment(), "PUNKTLIG_EXPO_URL": sandbox.url, **SETTINGS}
        database = connect(environment["PUNKTLIG_MONGO_URL"], environment["PUNKTLIG_MONGO_DB"], "demo")
        open_now.callback(database.client.close)
        open_now.enter_context(show)
        fleet = open_now.enter_context(Fleet(logs, environment))
        progress = open_now.enter_context(Progress(database, sandbox, show.update))
        return Story(Theatre(database, sandbox, fleet, progress, show)).perform()


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _on_sigterm(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
