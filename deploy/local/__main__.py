"""`python -m deploy.local up` and `down`: the local stack for a developer's shell."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.packages import PROJECT
from deploy.local.stack import LocalStack, StackFolder, say

_DEFAULT_FOLDER = PROJECT / ".local" / "stack"
_INDEXES_SECONDS = 120
_INTERRUPTED = 128 + signal.SIGINT


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code: 0 done, 1 fault, 2 usage or a server that is not on this machine."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "up":
            _up(options.folder, sandbox=options.sandbox, indexes=options.indexes)
        else:
            _down(options.folder, wipe=options.wipe)
    except StackError as fault:
        say(str(fault))
        return fault.exit_code
    except (OSError, subprocess.SubprocessError) as fault:
        say(str(fault))
        return 1
    except KeyboardInterrupt:
        say("interrupted; what this command had started is stopped")
        return _INTERRUPTED
    return 0


def _up(folder: Path, *, sandbox: bool, indexes: bool) -> None:
    with LocalStack(folder, sandbox=sandbox, outlives=True) as stack:
        settings = stack.environment()
        if indexes:
            _create_indexes(settings)
    for name, value in settings.items():
        print(f"export {name}={_quoted(value)}")


def _down(folder: Path, *, wipe: bool) -> None:
    stack = StackFolder(folder)
    stopped = stack.stop()
    if not stopped:
        say(f"nothing runs in {stack.folder}")
    if wipe:
        stack.wipe()
        say(f"deleted the data in {stack.folder}")


def _create_indexes(settings: Mapping[str, str]) -> None:
    """Let the creator make its indexes: services only check them."""
    command = (sys.executable, "-m", "creator", "indexes")
    environment = {**os.environ, **settings}
    done = subprocess.run(
        command, cwd=PROJECT, env=environment, stdout=sys.stderr, check=False, timeout=_INDEXES_SECONDS
    )
    if done.returncode != 0:
        raise StackError(f"`python -m creator indexes` ended with {done.returncode}")
    say("indexes are in place")


def _quoted(value: str) -> str:
    escaped = value.replace("'", "'\\''")
    return f"'{escaped}'"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description="The local stack.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start what does not run yet, print settings as shell exports")
    up.add_argument("--no-sandbox", dest="sandbox", action="store_false", help="without the stand-in for Expo")
    up.add_argument("--no-indexes", dest="indexes", action="store_false", help="leave the database as it is")
    down = commands.add_parser("down", help="stop what up started")
    down.add_argument("--wipe", action="store_true", help="delete the data, too")
    for command in (up, down):
        command.add_argument("--folder", type=Path, default=_DEFAULT_FOLDER, help="where the stack keeps its files")
    return parser


if __name__ == "__main__":
    sys.exit(main())
