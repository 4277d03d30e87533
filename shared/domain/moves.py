"""Every change of a notification message, one named constructor per move.

A move is data: a MongoDB filter that guards it and an update that makes it. Nothing else in the product writes
`status`, `claim` or an attempt by hand. The guards are the protocol: who may change a row (the claim's owner, the
attempt's author, or anybody while the row is free) is decided by the server at the moment of the write, on the
server's clock (`$$NOW`). Nothing matched is an ordinary answer: somebody else was there first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.states import DeletedReason, Reason, Status

Document = dict[str, Any]

LIVE: Document = {"status": Status.PENDING.value, "isDeleted": False}

# What another program may leave out, and no part can do without: a row that lacks any of it is completed first.
INCOMPLETE: Document = {
    "$or": [
        {"isDeleted": None},
        {
            "isDeleted": False,
            "status": {"$in": [None, Status.PENDING.value]},
            "$or": [{"status": None}, {"localDate": None}, {"deviceId": None}],
        },
    ],
}

# BSON orders missing < null < date, so a claim that is absent, null, {} or expired is not held.
_HELD: Document = {"$gt": ["$claim.expiresAt", "$$NOW"]}
_UNRESOLVED: Document = {"$cond": [{"$isNumber": "$unresolvedAttempts"}, "$unresolvedAttempts", 0]}
_ATTEMPTS: Document = {"$cond": [{"$isNumber": "$attempts"}, "$attempts", 0]}
_OPEN_ATTEMPT: Document = {
    "$cond": [{"$and": [{"$eq": [{"$type": "$attemptId"}, "string"]}, {"$gt": ["$attemptId", ""]}]}, 1, 0]
}
# Each the exact opposite of the other, whatever a foreign program has written: no row may fall between them.
_PERHAPS_SENT: Document = {"$or": [{"attemptId": {"$gt": ""}}, {"unresolvedAttempts": {"$gt": 0}}]}
_NO_ATTEMPT: Document = {"$nor": _PERHAPS_SENT["$or"]}

# What a planner may touch: nobody holds it, and the send stage has not got to it yet.
_FREE_AND_AHEAD: Document = {"$and": [{"$gt": ["$scheduledAt", "$$NOW"]}, {"$not": [_HELD]}]}

# A deliverable instant is the planned one, or the later one that a back-off asks for.
_DUE: Document = {"$max": ["$scheduledAt", "$nextAttemptAt"]}


@dataclass(frozen=True)
class Move:
    """A guarded write: `update` applies to the documents that match `where`, and to no other."""

    where: Document
    update: list[Document] | Document


def _later(milliseconds: int) -> Document:
    return {"$add": ["$$NOW", milliseconds]}


def _ended(status: Status, reason: Reason) -> Document:
    return {
        "status": status.value,
        "reason": reason.value,
        "resolvedAt": "$$NOW",
        "claim": None,
        "attemptId": None,
    }


# --- taking and keeping a row -------------------------------------------------------------------------------


def claim(ids: Sequence[Any], owner: str, lease_ms: int) -> Move:
    """Take the due rows among `ids` that nobody holds. `owner` must be new for every claim."""
    guard = {"$and": [{"$lte": [_DUE, "$$NOW"]}, {"$not": [_HELD]}]}
    return Move(
        {"_id": {"$in": list(ids)}, **LIVE, "$expr": guard},
        [{"$set": {"claim": {"owner": owner, "expiresAt": _later(lease_ms)}}}],
    )


def owned(ids: Sequence[Any], owner: str) -> Document:
    """The filter for what this claim really holds, also after an error whose outcome is unknown."""
    return {"_id": {"$in": list(ids)}, "claim.owner": owner, **LIVE}


def release(ids: Sequence[Any], owner: str) -> Move:
    """Hand rows back untouched."""
    return Move(owned(ids, owner), [{"$set": {"claim": None}}])


# --- the request --------------------------------------------------------------------------------------------


def mark(ids: Sequence[Any], owner: str, attempt: str, *, need_ms: int, max_unresolved: int) -> Move:
    """Announce one HTTP request for rows still owned, directly before it.

    The lease must cover the whole request (`need_ms`). An attempt still open from an earlier worker is counted as
    unresolved here, and a row whose count would pass `max_unresolved` is left alone.
    """
    unresolved = {"$add": [_UNRESOLVED, _OPEN_ATTEMPT]}
    guard = {
        "$and": [
            {"$gt": ["$claim.expiresAt", _later(need_ms)]},
            {"$lte": [unresolved, max_unresolved]},
        ]
    }
    change = {
        "unresolvedAttempts": unresolved,
        "attempts": {"$add": [_ATTEMPTS, 1]},
        "attemptId": attempt,
        "attemptStartedAt": "$$NOW",
    }
    return Move({**owned(ids, owner), "$expr": guard}, [{"$set": change}])


def attempted(ids: Sequence[Any], attempt: str) -> Document:
    """The filter for rows that still bear this attempt: its answer may be recorded even after the lease."""
    return {"_id": {"$in": list(ids)}, "attemptId": attempt, **LIVE}


def record_sent(attempt: str, tickets: Mapping[Any, str], receipt_delay_ms: int) -> Move:
    """Accepted by Expo: keep each row's ticket (`tickets` maps row id to ticket id) and when to ask for its receipt."""
    ids, ticket_ids = list(tickets), list(tickets.values())
    ticket = {"$arrayElemAt": [{"$literal": ticket_ids}, {"$indexOfArray": [{"$literal": ids}, "$_id"]}]}
    change = {
        "status": Status.SENT.value,
        "sentAt": "$$NOW",
        "ticketId": ticket,
        "claim": None,
        "attemptId": None,
        "nextAttemptAt": _later(receipt_delay_ms),
        "enqueuedAt": "$$NOW",
    }
    return Move(attempted(ids, attempt), [{"$set": change}])


def record_refused(attempt: str, ids: Sequence[Any], retry_in_ms: int) -> Move:
    """Definitely not sent (connection refused, 429, another item's fault): try again later."""
    change = {"claim": None, "attemptId": None, "nextAttemptAt": _later(retry_in_ms)}
    return Move(attempted(ids, attempt), [{"$set": change}])


def record_unmade(attempt: str, ids: Sequence[Any], retry_in_ms: int) -> Move:
    """The request said nothing about these rows (never started, or our credentials were refused): as if not tried."""
    change = {
        "claim": None,
        "attemptId": None,
        "attempts": {"$subtract": ["$attempts", 1]},
        "nextAttemptAt": _later(retry_in_ms),
    }
    return Move(attempted(ids, attempt), [{"$set": change}])


def reopen(attempt: str, ids: Sequence[Any]) -> Move:
    """Refused with its whole request, through no fault of its own: still claimed, ready for a new mark."""
    change = {"attemptId": None, "attempts": {"$subtract": ["$attempts", 1]}}
    return Move(attempted(ids, attempt), [{"$set": change}])


def record_unknown(attempt: str, ids: Sequence[Any], retry_in_ms: int) -> Move:
    """Nobody knows whether Expo took it: count that for ever, and let policy decide after a pause."""
    change = {
        "claim": None,
        "attemptId": None,
        "unresolvedAttempts": {"$add": [_UNRESOLVED, 1]},
        "nextAttemptAt": _later(retry_in_ms),
    }
    return Move(attempted(ids, attempt), [{"$set": change}])


def record_failed(attempt: str, ids: Sequence[Any], reason: Reason, settled_by: str) -> Move:
    """A definite refusal of these rows. `settled_by` lets the same transaction read back which rows it moved."""
    change = {**_ended(Status.FAILED, reason), "settledBy": settled_by}
    return Move(attempted(ids, attempt), [{"$set": change}])


# --- decided without a request ------------------------------------------------------------------------------


def _free_or_owned(ids: Sequence[Any], owner: str | None) -> Document:
    if owner is not None:
        return owned(ids, owner)
    return {"_id": {"$in": list(ids)}, **LIVE, "$expr": {"$not": [_HELD]}}


def _due_or_owned(ids: Sequence[Any], owner: str | None) -> Document:
    """As above; without an owner only rows whose time has come: another one may have been moved since it was judged."""
    where = _free_or_owned(ids, owner)
    if owner is None:
        is_no_time = {"$ne": [{"$type": "$scheduledAt"}, "date"]}  # some types sort behind every date
        has_come = {"$or": [{"$lte": ["$scheduledAt", "$$NOW"]}, is_no_time]}
        where["$expr"] = {"$and": [has_come, {"$not": [_HELD]}]}
    return where


def miss(ids: Sequence[Any], reason: Reason, owner: str | None) -> Move:
    """Decided not to send. Refused for a row that was perhaps sent already: that one can only be given up."""
    return Move({**_due_or_owned(ids, owner), **_NO_ATTEMPT}, [{"$set": _ended(Status.IS_MISSED, reason)}])


def supersede(row_id: Any, owner: str | None) -> Move:
    """It should move to an instant that another row of its label holds by right: that one is enough."""
    where = {**_free_or_owned([row_id], owner), **_NO_ATTEMPT}
    return Move(where, [{"$set": _ended(Status.IS_MISSED, Reason.SUPERSEDED)}])


def give_up(ids: Sequence[Any], owner: str | None) -> Move:
    """End rows whose outcome stays unknown and may not be tried again."""
    change = {
        **_ended(Status.FAILED, Reason.OUTCOME_UNKNOWN),
        "unresolvedAttempts": {"$add": [_UNRESOLVED, _OPEN_ATTEMPT]},
    }
    return Move({**_due_or_owned(ids, owner), **_PERHAPS_SENT}, [{"$set": change}])


def reject(ids: Sequence[Any], reason: Reason, owner: str | None) -> Move:
    """End rows that can never be sent (a payload no budget holds, retries spent), without a request."""
    return Move({**_due_or_owned(ids, owner), **_NO_ATTEMPT}, [{"$set": _ended(Status.FAILED, reason)}])


@dataclass(frozen=True)
class Placement:
    """Where and when an occurrence now belongs: instant (aware UTC), zone name, token id."""

    scheduled_at: datetime
    timezone: str
    token_id: Any


def move_in_place(row_id: Any, placement: Placement, owner: str | None, *, planned_at: datetime | None = None) -> Move:
    """Give an occurrence its new instant, keeping its key.

    A planner passes `planned_at`, the server time at which it began to read, and moves only rows that no newer plan
    has touched. A consumer passes the claim's `owner`.
    """
    where = {**_free_or_owned([row_id], owner), **_NO_ATTEMPT}
    if planned_at is not None:
        where |= {"plannedAt": {"$lt": planned_at}, "$expr": _FREE_AND_AHEAD}
    change = {
        "scheduledAt": placement.scheduled_at,
        "timezone": {"$literal": placement.timezone},
        "notificationTokenId": {"$literal": placement.token_id},
        "plannedAt": "$$NOW" if planned_at is None else planned_at,
        "claim": None,
        "enqueuedAt": None,
        "nextAttemptAt": None,
    }
    return Move(where, [{"$set": change}])


def rename(row_id: Any, category: str, label: str, planned_at: datetime) -> Move:
    """A reminder was given another category or label: the occurrence keeps its key and rings on another queue."""
    where = {
        **_free_or_owned([row_id], None),
        **_NO_ATTEMPT,
        "plannedAt": {"$lt": planned_at},
        "$expr": _FREE_AND_AHEAD,
    }
    change = {
        "category": {"$literal": category},
        "label": {"$literal": label},
        "plannedAt": planned_at,
        "claim": None,
        "enqueuedAt": None,
    }
    return Move(where, [{"$set": change}])


def retarget(row_id: Any, token_id: Any, owner: str) -> Move:
    """Follow the device's current token, when it still belongs to the row's user."""
    where = {**owned([row_id], owner), **_NO_ATTEMPT}
    return Move(where, [{"$set": {"notificationTokenId": {"$literal": token_id}}}])


def refresh_content(row_id: Any, content: Mapping[str, Any], owner: str) -> Move:
    """Keep in the row the words that are really sent (`title`, `body`, `data`) after its reminder was edited."""
    change = {key: {"$literal": value} for key, value in content.items()}
    return Move(owned([row_id], owner), [{"$set": change}])


def soft_delete(ids: Sequence[Any], reason: DeletedReason, plan_started: datetime) -> Move:
    """Remove future rows whose occurrence no longer exists; rows already due are the send stage's to judge."""
    where = {
        "_id": {"$in": list(ids)},
        **LIVE,
        **_NO_ATTEMPT,
        "plannedAt": {"$lt": plan_started},
        "$expr": _FREE_AND_AHEAD,
    }
    change = {"isDeleted": True, "reason": reason.value, "resolvedAt": "$$NOW", "claim": None}
    return Move(where, [{"$set": change}])


# --- rows of other programs ---------------------------------------------------------------------------------


def adopt(row_id: Any, fields: Mapping[str, Any], absent: Sequence[str]) -> Move:
    """Complete a row that another program inserted without its bookkeeping; `absent` must not stay in it."""
    change = {name: {"$literal": value} for name, value in fields.items()}
    stages: list[Document] = [{"$set": change}]
    if absent:
        stages.append({"$unset": list(absent)})
    return Move({"_id": row_id, **INCOMPLETE}, stages)


# --- on and off the broker ----------------------------------------------------------------------------------


def enqueued(ids: Sequence[Any]) -> Move:
    """Note that the broker has answered for a message that rings these rows, pending or awaiting a receipt."""
    status = {"$in": [Status.PENDING.value, Status.SENT.value]}
    where = {"_id": {"$in": list(ids)}, "status": status, "isDeleted": False}
    return Move(where, {"$currentDate": {"enqueuedAt": True}})  # the server's clock too, for less of its time


def unqueue(ids: Sequence[Any]) -> Move:
    """Leave rows to the relay again: the broker rings them at the wrong time."""
    return Move({"_id": {"$in": list(ids)}, **LIVE}, [{"$set": {"enqueuedAt": None}}])


# --- receipts -----------------------------------------------------------------------------------------------


def _ticketed(tickets: Mapping[Any, str]) -> Document:
    # An old ticket's answer must never touch a row that has been sent again under a newer one; and since a ticket
    # belongs to one message only, two lists say the same as a list of pairs, at a third of the cost.
    return {
        "_id": {"$in": list(tickets)},
        "ticketId": {"$in": list(tickets.values())},
        "status": Status.SENT.value,
    }


def confirm(tickets: Mapping[Any, str], settled_by: str) -> Move:
    """A receipt says Apple or Google took it. `tickets` maps row id to the ticket asked for."""
    change = {**_ended(Status.SUCCESS, Reason.CONFIRMED), "settledBy": settled_by}
    return Move(_ticketed(tickets), [{"$set": change}])


def leave_unconfirmed(tickets: Mapping[Any, str]) -> Move:
    """No receipt came in time; Expo took the message and never disowned it."""
    return Move(_ticketed(tickets), [{"$set": _ended(Status.SUCCESS, Reason.UNCONFIRMED)}])


def receipt_failed(tickets: Mapping[Any, str], reason: Reason, settled_by: str) -> Move:
    """A receipt says it was definitely not handed over."""
    change = {**_ended(Status.FAILED, reason), "settledBy": settled_by}
    return Move(_ticketed(tickets), [{"$set": change}])


def disown(tickets: Mapping[Any, str], retry_in_ms: int) -> Move:
    """Back to pending: definitely not delivered, for a passing cause. Once per row; the ticket is kept as evidence."""
    change = {
        "status": Status.PENDING.value,
        "disownedTicketId": "$ticketId",
        "ticketId": None,
        "sentAt": None,
        "nextAttemptAt": _later(retry_in_ms),
        "enqueuedAt": None,
    }
    return Move({**_ticketed(tickets), "disownedTicketId": None}, [{"$set": change}])


def look_again(tickets: Mapping[Any, str], retry_in_ms: int) -> Move:
    """The receipt is not there yet: note when to ask next."""
    return Move(_ticketed(tickets), [{"$set": {"nextAttemptAt": _later(retry_in_ms), "enqueuedAt": "$$NOW"}}])
