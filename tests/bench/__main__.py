"""`python -m tests.bench [--only NAME …] [--long]`: every promise of speed, measured against a bare baseline."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping

from tests.bench import cost, lateness, plan, rate, relay, send
from tests.bench.figures import Figure, Verdict

Bench = Callable[[], list[Figure]]


def benches() -> Mapping[str, Bench]:
    """By name, in the order in which they run."""
    return {
        "plan": plan.bench,
        "relay": relay.bench,
        "send": send.bench,
        "cost": cost.bench,
        "lateness": lateness.bench_spread,
        "drain": lateness.bench_drain,
        "rate": rate.bench,
    }


def long_benches() -> Mapping[str, Bench]:
    """Those that take minutes."""
    return {"memory": plan.bench_memory}


def main() -> int:
    """Run them and print what they find; 1 if a floor is missed."""
    every = {**benches(), **long_benches()}
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure the product on real servers.")
    parser.add_argument("--only", action="append", choices=list(every), help="run this one; may be repeated")
    parser.add_argument("--long", action="store_true", help="run those too that take minutes")
    options = parser.parse_args()
    names = options.only or list(every if options.long else benches())
    missed = 0
    for name in names:
        began, load = time.monotonic(), os.getloadavg()[0]
        found = every[name]()
        print(f"{name} ({time.monotonic() - began:.0f} s, load before {load:.1f})", flush=True)
        for line in [f"  {figure}" for figure in found] + _beside(name):
            print(line, flush=True)
        missed += sum(1 for figure in found if figure.verdict is Verdict.MISS)
    print(f"{missed} below the floor" if missed else "every floor is reached")
    return 1 if missed else 0


def _beside(name: str) -> list[str]:
    return lateness.neighbours() if name == "drain" else []


if __name__ == "__main__":
    sys.exit(main())
