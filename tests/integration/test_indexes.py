"""The indexes the promises rest on: found, missed, made good, and really used."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.errors import DuplicateKeyError

from shared.adapters.errors import WrongSchema
from shared.adapters.mongo.audience import Audience
from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.changes import RelayState
from shared.adapters.mongo.client import connect
from shared.adapters.mongo.counters import CounterStore, Span
from shared.adapters.mongo.indexes import check_indexes, create_indexes, declared_indexes, missing_indexes
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
def bare(stack):
    """A database without any index."""
    database = connect(stack.mongod.url, f"test_{uuid.uuid4().hex}", "tests")
    yield database
    database.client.drop_database(database.name)
    database.client.close()


def names():
    return [f"{index.collection}.{index.name}" for index in declared_indexes()]


def test_an_empty_database_lacks_them_all_and_the_error_says_what_to_do(bare):
    assert missing_indexes(bare) == names()
    with pytest.raises(WrongSchema) as caught:
        check_indexes(bare)
    assert names()[0] in str(caught.value)
    assert f"and {len(names()) - 1} more" in str(caught.value)
    assert "python -m creator indexes" in str(caught.value)


def test_created_once_they_are_there_and_a_second_run_does_nothing(bare):
    assert create_indexes(bare) == names()
    check_indexes(bare)
    assert create_indexes(bare) == []


@pytest.mark.parametrize("index", declared_indexes(), ids=lambda index: f"{index.collection}.{index.name}")
def test_each_one_is_missed_when_it_is_dropped_and_made_again(db, index):
    db[index.collection].drop_index(index.name)
    missing = missing_indexes(db)
    assert missing == [f"{index.collection}.{index.name}"]
    assert create_indexes(db) == missing
    check_indexes(db)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unique": True},
        {"unique": True, "partialFilterExpression": {"isActive": False}},
        {"partialFilterExpression": {"isActive": True}},
        {"unique": True, "partialFilterExpression": {"isActive": True}, "hidden": True},
        {"unique": True, "partialFilterExpression": {"isActive": True}, "collation": {"locale": "en", "strength": 1}},
        {"partialFilterExpression": {"isActive": True}, "expireAfterSeconds": 60},
    ],
    ids=repr,
)
def test_an_index_of_our_name_that_differs_is_replaced(bare, options):
    bare["notification_tokens"].create_index([("deviceId", 1)], name="device_once", **options)
    assert "notification_tokens.device_once" in missing_indexes(bare)
    create_indexes(bare)
    check_indexes(bare)


def declared(where):
    """The first declared index that answers to `where`."""
    return next(index for index in declared_indexes() if where(index))


def test_an_index_that_would_delete_rows_is_not_taken_for_ours(bare):
    index = declared(lambda one: len(one.keys) == 1 and one.partial and not one.unique)
    bare[index.collection].create_index(
        list(index.keys), name=index.name, partialFilterExpression=index.partial, expireAfterSeconds=60
    )
    assert f"{index.collection}.{index.name}" in missing_indexes(bare)


def test_keys_in_another_order_are_another_index(bare):
    index = declared(lambda one: len(one.keys) > 1 and not one.unique)
    bare[index.collection].create_index(list(reversed(index.keys)), name=index.name)
    assert f"{index.collection}.{index.name}" in missing_indexes(bare)


def test_documents_that_break_a_rule_are_told_with_the_index(bare):
    token = {"deviceId": "d", "isActive": True}
    bare["notification_tokens"].insert_many([{**token, "token": "a"}, {**token, "token": "b"}])
    with pytest.raises(WrongSchema, match=r"notification_tokens\.device_once"):
        create_indexes(bare)


def test_indexes_of_others_are_left_alone(bare):
    bare["reminders"].create_index("title", name="theirs")
    create_indexes(bare)
    assert "theirs" in bare["reminders"].index_information()


# --- what the unique ones let in -----------------------------------------------------------------------------


def insert(rows, *documents):
    """How many of them go in, each by itself."""
    count = 0
    for document in documents:
        try:
            rows.collection.insert_one(dict(document))
        except DuplicateKeyError:
            continue
        count += 1
    return count


@pytest.mark.parametrize("status", ["pending", "sent", "success", "failed", "is_missed"])
def test_one_row_per_occurrence_in_whatever_state(rows, status):
    row = rows.document(_id=...)
    other = {**row, "status": status, "scheduledAt": at(900), "notificationTokenId": "another"}
    assert insert(rows, row, other) == 1


@pytest.mark.parametrize("name", ["reminderId", "deviceId", "localDate", "localTime"])
def test_each_part_of_the_occurrence_key_counts(rows, name):
    row = rows.document(_id=...)
    assert insert(rows, row, {**row, name: "another", "label": "other"}) == 2


def test_one_pending_row_per_label_token_and_instant(rows):
    row = rows.document(_id=...)
    assert insert(rows, row, {**row, "reminderId": "another"}) == 1


@pytest.mark.parametrize("name", ["userId", "notificationTokenId", "category", "label"])
def test_each_part_of_the_pending_key_counts(rows, name):
    row = rows.document(_id=...)
    assert insert(rows, row, {**row, name: "another", "reminderId": "another"}) == 2


@pytest.mark.parametrize("fields", [{"status": "sent"}, {"isDeleted": True}], ids=repr)
def test_a_row_that_waits_no_longer_frees_the_pending_key(rows, fields):
    row = rows.document(_id=...)
    assert insert(rows, {**row, **fields}, {**row, "reminderId": "another"}) == 2


def test_rows_without_a_reminder_stand_beside_each_other_and_rows_with_null_do_not(rows):
    """Why a reminder that is not there must be absent: to the index null is a value like any other."""
    absent = rows.document(_id=..., reminderId=...)
    assert insert(rows, absent, {**absent, "label": "b"}, {**absent, "label": "c"}) == 3
    null = rows.document(_id=..., reminderId=None)
    assert insert(rows, null, {**null, "label": "b"}) == 1


@pytest.mark.parametrize("shared", ["deviceId", "token"])
def test_one_active_token_per_device_and_per_token(db, shared):
    tokens = db["notification_tokens"]
    first = {"deviceId": "d", "token": "a", "isActive": True}
    second = {**first, **{name: "other" for name in ("deviceId", "token") if name != shared}}
    tokens.insert_one({**first, "isActive": False})
    tokens.insert_one(dict(first))
    with pytest.raises(DuplicateKeyError):
        tokens.insert_one(dict(second))
    tokens.insert_one({**second, "isActive": False})


# --- what the server does with them ---------------------------------------------------------------------------


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
