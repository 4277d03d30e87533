import inspect
from datetime import UTC, datetime
from typing import get_type_hints

import pytest

from shared.domain import moves, token_moves
from shared.domain.moves import Move
from shared.domain.states import DEVICE_FAILURES, REASONS, TERMINAL, TRANSITIONS, Reason, Status

# They keep the books of a row, or complete it, and are no step of its life.
WITHOUT_A_STATE = {"enqueued", "unqueue", "adopt"}


def constructors(module):
    return {
        name
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and get_type_hints(function).get("return") is Move
    }


def test_every_transition_is_made_by_a_move_of_its_name():
    assert {transition.move for transition in TRANSITIONS} <= constructors(moves)


def test_every_move_is_a_transition_or_known_to_be_none():
    assert constructors(moves) - {transition.move for transition in TRANSITIONS} == WITHOUT_A_STATE


def test_a_move_goes_one_way():
    assert len({transition.move for transition in TRANSITIONS}) == len(TRANSITIONS)


def test_nothing_leaves_a_terminal_state():
    assert not [transition for transition in TRANSITIONS if transition.source in TERMINAL]


def test_every_state_is_reached_and_every_open_one_is_left():
    assert {transition.target for transition in TRANSITIONS} == set(Status)
    left = {transition.source for transition in TRANSITIONS if transition.source != transition.target}
    assert left == set(Status) - TERMINAL


def test_every_reason_belongs_to_one_terminal_status():
    assert set(REASONS) == TERMINAL
    assert sorted(reason for reasons in REASONS.values() for reason in reasons) == sorted(Reason)


def test_device_failures_are_failures():
    assert REASONS[Status.FAILED] > DEVICE_FAILURES
    assert Reason.DEVICE_NOT_REGISTERED not in DEVICE_FAILURES


@pytest.mark.parametrize("module", [moves, token_moves])
def test_constructors_are_found(module):
    assert len(constructors(module)) >= 6


def moves_of(row_id="r"):
    """One of each, as a caller would make it."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ids, tickets = [row_id], {row_id: "t"}
    placement = moves.Placement(now, "UTC", "t")
    return {
        "claim": moves.claim(ids, "o", 1),
        "mark": moves.mark(ids, "o", "a", need_ms=1, max_unresolved=1),
        "release": moves.release(ids, "o"),
        "record_refused": moves.record_refused("a", ids, 1),
        "record_unmade": moves.record_unmade("a", ids, 1),
        "reopen": moves.reopen("a", ids),
        "record_unknown": moves.record_unknown("a", ids, 1),
        "move_in_place": moves.move_in_place(row_id, placement, "o"),
        "supersede": moves.supersede(row_id, "o"),
        "rename": moves.rename(row_id, "mood", "tea", now),
        "retarget": moves.retarget(row_id, "t", "o"),
        "refresh_content": moves.refresh_content(row_id, {"title": "x"}, "o"),
        "soft_delete": moves.soft_delete(ids, moves.DeletedReason.USER_MOVED, now),
        "record_sent": moves.record_sent("a", tickets, 1),
        "record_failed": moves.record_failed("a", ids, Reason.CREDENTIALS, "s"),
        "give_up": moves.give_up(ids, "o"),
        "reject": moves.reject(ids, Reason.INVALID_PAYLOAD, "o"),
        "miss": moves.miss(ids, Reason.TOO_LATE, "o"),
        "confirm": moves.confirm(tickets, "s"),
        "leave_unconfirmed": moves.leave_unconfirmed(tickets),
        "receipt_failed": moves.receipt_failed(tickets, Reason.CREDENTIALS, "s"),
        "disown": moves.disown(tickets, 1),
        "look_again": moves.look_again(tickets, 1),
    }


@pytest.mark.parametrize("transition", sorted(TRANSITIONS))
def test_the_move_asks_for_the_source_and_sets_the_target(transition):
    move = moves_of()[transition.move]
    assert move.where["status"] == transition.source
    fields = {name: value for stage in move.update for name, value in stage.get("$set", {}).items()}
    assert fields.get("status", transition.source) == transition.target


@pytest.mark.parametrize("transition", sorted(TRANSITIONS))
def test_every_end_has_a_reason_of_its_status(transition):
    fields = {name: value for stage in moves_of()[transition.move].update for name, value in stage["$set"].items()}
    if transition.target in TERMINAL:
        assert fields["reason"] in REASONS[transition.target]
        assert fields["resolvedAt"] == "$$NOW"
        assert fields["claim"] is None


@pytest.mark.parametrize("name", ["claim", "mark", "record_sent", "record_refused", "record_unknown", "move_in_place"])
def test_no_move_uses_the_workers_clock(name):
    """Two moves made a while apart are the same: every instant in them is the server's."""
    assert moves_of()[name] == moves_of()[name]
    if name != "move_in_place":
        assert "datetime" not in repr(moves_of()[name])
