"""How a decision not to send ends a row. Consumer and sweep end rows alike."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from shared.domain import moves
from shared.domain.decision import Decision, GiveUp, Miss, Reject
from shared.domain.moves import Move
from shared.domain.states import Reason, Status


class Ending(NamedTuple):
    """The terminal status and reason, and the move that gives them."""

    status: Status
    reason: Reason
    move: Move


def ending_of(verdict: Decision, ids: Sequence[Any], owner: str | None) -> Ending:
    """The ending of rows with this verdict; `owner` is the claim that holds them, None for free rows.

    Raises:
        TypeError: a verdict that ends nothing.

    """
    match verdict:
        case Miss(reason):
            return Ending(Status.IS_MISSED, reason, moves.miss(ids, reason, owner))
        case Reject(reason):
            return Ending(Status.FAILED, reason, moves.reject(ids, reason, owner))
        case GiveUp():
            return Ending(Status.FAILED, Reason.OUTCOME_UNKNOWN, moves.give_up(ids, owner))
    raise TypeError(f"{type(verdict).__name__} ends no row")
