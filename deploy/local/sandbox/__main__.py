"""``python -m deploy.local.sandbox --port N``."""

import argparse
import math
import sys
from pathlib import Path
from typing import NoReturn

from deploy.local.sandbox.push_service import Limits
from deploy.local.sandbox.server import end_at_once, end_with_stdin, listen, serve

_HIGHEST_PORT = 65535


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit code 2, without the usage text."""
        self.exit(2, f"{self.prog}: {message}\n")


def main() -> int:
    """Run until a signal comes; the exit code."""
    end_at_once()
    options = _parser().parse_args()
    limits = Limits(
        rate=options.rate,
        connections=options.connections,
        access_token=options.access_token,
        receipt_delay=options.receipt_delay,
        ledger_file=options.ledger_file,
    )
    try:
        listening = listen(options.host, options.port)
        if options.until_stdin_closes:
            end_with_stdin()
        serve(listening, limits)
    except OSError as problem:
        print(f"sandbox: {problem}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OneLineParser(prog="sandbox", description="A stand-in for Expo's push service.", allow_abbrev=False)
    parser.add_argument("--port", type=_port, required=True, help="0 picks a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--rate", type=_count, default=600, help="recipients in any one second, 0: no limit")
    parser.add_argument("--connections", type=_count, default=6, help="requests at the same time, 0: no limit")
    parser.add_argument("--access-token", help="demand this bearer token")
    parser.add_argument("--receipt-delay", type=_seconds, default=0.0, help="seconds from ticket to receipt")
    parser.add_argument("--ledger-file", type=Path, help="append the ledger to this file as it grows")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input does")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not (math.isfinite(value) and value >= 0):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return value


if __name__ == "__main__":
    sys.exit(main())
