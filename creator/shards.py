"""A plan in several processes at once: planners may overlap anyhow, and one interpreter uses one processor only."""

import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass

from creator.plan import PlanReport
from shared.adapters.errors import Unavailable
from shared.runtime.lifecycle import EXIT_DONE

# More would only wait for the database.
_MOST = 4


@dataclass(frozen=True)
class Shard:
    """Every `of`-th batch of users, beginning with number `number` (from 0)."""

    number: int
    of: int

    def has(self, batch: int) -> bool:
        """Whether the batch with this number is its work."""
        return batch % self.of == self.number


WHOLE = Shard(0, 1)


class ShardFailed(Unavailable):
    """A process that planned a part of the users has failed; the text says why."""


def processors() -> int:
    """How many processes are worth starting here."""
    return min(_MOST, len(os.sched_getaffinity(0)))


def plan_in_shards(count: int, plan: Callable[[Shard], PlanReport]) -> PlanReport:
    """Call `plan` for each of `count` shards, all but the first in a process of its own; their reports added up.

    Nothing may be connected and no thread be running yet: children are forked.

    Raises:
        ShardFailed: a child could not plan its part; the others have planned theirs.

    """
    children = [_fork(plan, Shard(number, count)) for number in range(1, count)]
    try:
        report = plan(Shard(0, count))
    finally:
        answers = [_answer(pid, reading) for pid, reading in children]
    for answer in answers:
        if not isinstance(answer, PlanReport):
            raise ShardFailed(answer)
        report.add(answer)
    return report


def _fork(plan: Callable[[Shard], PlanReport], shard: Shard) -> tuple[int, int]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    answer: PlanReport | str
    try:
        answer = plan(shard)
    except Exception as error:  # noqa: BLE001 - the parent says it, in one line with its own
        answer = f"part {shard.number + 1} of {shard.of} of the users was not planned: {error}"
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(answer, pipe)
    sys.stderr.flush()
    os._exit(EXIT_DONE)


def _answer(pid: int, reading: int) -> PlanReport | str:
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    if not answer:
        return "a part of the users was not planned: its process was killed"
    report: PlanReport | str = pickle.loads(answer)  # noqa: S301 - from our own child, over our own pipe
    return report
