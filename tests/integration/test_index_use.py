"""How the server carries out what the product asks of it: by an index, always."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.changes import RelayState
from shared.adapters.mongo.counters import CounterStore, Span
from shared.adapters.mongo.limiter import Limiter
from shared.adapters.mongo.messages import MessageStore, Settlement
from shared.adapters.mongo.plan_rows import PlanRows
from shared.adapters.mongo.tokens import TokenStore
from shared.domain import moves, token_moves
from shared.domain.moves import Placement
from shared.domain.states import DeletedReason, Reason
from shared.domain.token_moves import Registration


def at(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def carried_out(db):
    """How the server itself says it carried out what a function asked of it."""

    def watch(act):
        db.command("profile", 2)
        act()
        db.command("profile", 0)
        return [entry for entry in db["system.profile"].find() if entry.get("planSummary")]

    yield watch
    db.command("profile", 0)
    db["system.profile"].drop()


def seed(db, rows):
    rows.collection.insert_many(
        [rows.document(localDate=f"2026-05-{day:02}", status="success", reason="confirmed") for day in range(1, 29)]
        + [rows.document(scheduledAt=at(9_000 + n)) for n in range(300)]
        + [rows.document(status="sent", nextAttemptAt=at(900), ticketId=f"t{n}", sentAt=at(-1)) for n in range(300)]
        + [rows.document(status="failed", reason="unknown_error") for _ in range(300)]
    )
    db["users"].insert_many([{"_id": f"user-{n}", "timezone": "UTC"} for n in range(300)])
    db["reminders"].insert_many([{"_id": f"reminder-{n}", "userId": f"user-{n}"} for n in range(300)])
    db["notification_tokens"].insert_many(
        [
            {"_id": n, "userId": f"user-{n}", "deviceId": f"d{n}", "token": f"t{n}", "isActive": n % 2 == 0}
            for n in range(300)
        ]
    )


def use_relay_and_sweep(db, rows):
    backlog, state = Backlog(db), RelayState(db)
    for chunks in (
        backlog.not_enqueued(at(60), 100),
        backlog.overdue(at(0), at(-300), 100),
        backlog.awaiting_receipt(at(0), at(-300), 100),
        backlog.foreign(100),
    ):
        assert sum(len(chunk) for chunk in chunks) <= 1
    row_id = rows.plant()
    backlog.incomplete([row_id])
    backlog.ringable([row_id])
    backlog.apply(moves.enqueued([row_id]))
    backlog.apply(moves.adopt(row_id, {"title": "x"}, []))
    state.hold_lease("a", 1000)
    state.keep_place({"_data": "x"})
    state.forget_place()
    state.drop_lease("a")


def use_send_and_receipts(db, rows):
    store, limiter = MessageStore(db), Limiter(db, 600, 6, 60)
    permit = limiter.acquire("a", 1)
    ids = rows.plant_many(3)
    store.glance(ids)
    claim = store.claim(ids, 60_000)
    store.mark(moves.mark(ids, claim.owner, "a", need_ms=1, max_unresolved=1), [*ids, "lost"], "a")
    tickets = dict.fromkeys(ids, "t")
    store.apply(moves.record_sent("a", tickets, 1))
    store.sent(ids)
    store.apply(moves.look_again(tickets, 1))
    move = moves.receipt_failed(tickets, Reason.UNKNOWN_ERROR, "s")
    store.settle([Settlement(move, "s")], lambda _moved: [token_moves.count_failures(1, 1, 3)])
    row_id = rows.plant(scheduledAt=at(-2))
    store.apply(moves.move_in_place(row_id, Placement(at(-1), "UTC", "t"), None))
    store.apply(moves.soft_delete([row_id], DeletedReason.USER_MOVED, at(0)))
    store.apply(moves.miss([row_id], Reason.TOO_LATE, None))
    limiter.release(permit)
    limiter.pause(0.001)


def use_plan(db, rows):
    audience, plan = Audience(db), PlanRows(db)
    for users in audience.batches(100):
        mine = [user["_id"] for user in users[:10]]
        audience.users(mine)
        audience.active_tokens_of(mine)
        audience.active_tokens_on(["d1", "d2"])
        found = [reminder["_id"] for reminder in audience.reminders_of(mine)]
        audience.reminders(found)
        plan.known(found, "2026-06-01", "2026-06-02")
    row = rows.document(_id=..., scheduledAt=at(9_000))
    plan.insert([dict(row)])
    plan.insert([dict(row), {**row, "reminderId": "twin"}])


def use_registration(db, _rows):
    store = TokenStore(db)
    for user in ("a", "b"):
        store.register(Registration(user, "phone", "ExponentPushToken[z]", "ios"))
    store.log_out("phone")


def use_counters(db, _rows):
    store = CounterStore(db)
    for day in store.days_with_rows()[:5]:
        store.has_open_rows(day)
        store.count(day)
        store.seal(day)
        store.purge(day)
    store.sealed_days()
    store.purge_deleted_before("2026-05-03")
    list(store.read(Span("2026-05-01", "2026-05-03")))


USES = (use_relay_and_sweep, use_send_and_receipts, use_plan, use_registration, use_counters)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_no_part_of_the_product_walks_a_whole_collection(db, rows, carried_out, use):
    seed(db, rows)
    entries = carried_out(lambda: use(db, rows))
    assert len(entries) >= 5, "the profiler saw what was done"
    walked = [
        (entry["ns"], entry["op"], entry.get("command")) for entry in entries if "COLLSCAN" in entry["planSummary"]
    ]
    # Their few documents are the whole of what is asked for.
    small = ("relay_state", "expo_permits", "notification_counters")
    assert [one for one in walked if not one[0].endswith(small)] == []


@pytest.mark.parametrize(
    "find",
    [
        lambda backlog: backlog.not_enqueued(at(60), 100),
        lambda backlog: backlog.overdue(at(0), at(-300), 100),
        lambda backlog: backlog.awaiting_receipt(at(0), at(-300), 100),
        lambda backlog: backlog.foreign(100),
    ],
    ids=["not_enqueued", "overdue", "awaiting_receipt", "foreign"],
)
def test_finding_nothing_costs_nothing_however_much_is_planned(db, rows, carried_out, find):
    seed(db, rows)
    entries = carried_out(lambda: list(find(Backlog(db))))
    assert entries
    assert sum(entry["docsExamined"] for entry in entries) == 0
    assert sum(entry["keysExamined"] for entry in entries) <= len(entries)


def test_the_days_are_found_by_a_seek_each(db, rows, carried_out):
    seed(db, rows)
    store = CounterStore(db)
    entries = carried_out(store.days_with_rows)
    days = store.days_with_rows()
    assert len(days) == 29
    assert sum(entry["keysExamined"] for entry in entries) <= 2 * len(days) + 2
