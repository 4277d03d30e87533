"""The change stream and the relay's own state, on a real replica set."""

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from shared.adapters.mongo.backlog import Backlog
from shared.adapters.mongo.changes import RelayState
from shared.adapters.mongo.client import connect
from shared.domain import moves
from shared.domain.moves import Placement

WAIT_MS = 50
PATIENCE = timedelta(seconds=10)


def later(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def state(db):
    return RelayState(db)


def read(feed, count=1):
    """The next `count` changes; fails after a while if there are not so many."""
    deadline, found = datetime.now(UTC) + PATIENCE, []
    while len(found) < count:
        assert datetime.now(UTC) < deadline, f"only {len(found)} changes came"
        change = feed.next()
        if change is not None:
            found.append(change)
    return found


def test_a_row_that_anybody_inserts_is_seen_without_its_words(state, rows):
    with state.feed(WAIT_MS) as feed:
        row_id = rows.plant()
        (change,) = read(feed)
    assert change["documentKey"]["_id"] == row_id
    assert change["operationType"] == "insert"
    seen = change["fullDocument"]
    assert (seen["category"], seen["status"], seen["isDeleted"], seen["enqueuedAt"]) == ("meal", "pending", False, None)
    assert not {"title", "body", "data"} & seen.keys()


def test_a_row_that_was_moved_is_seen_and_no_other_update_is(state, rows, held):
    row_id = rows.plant(scheduledAt=later(600))
    other = rows.plant(claim=held())
    with state.feed(WAIT_MS) as feed:
        rows.make(moves.enqueued([other]))
        rows.make(moves.release([other], "me"))
        rows.make(moves.move_in_place(row_id, Placement(later(900), "UTC", "t"), None))
        last = rows.plant()
        first, second = read(feed, 2)
    assert (first["operationType"], first["documentKey"]["_id"]) == ("update", row_id)
    assert second["documentKey"]["_id"] == last


def test_a_replaced_row_is_seen(state, rows):
    row_id = rows.plant()
    with state.feed(WAIT_MS) as feed:
        rows.collection.replace_one({"_id": row_id}, rows.document(_id=row_id))
        (change,) = read(feed)
    assert change["operationType"] == "replace"


def test_nothing_new_is_none_within_the_waiting_time(state):
    with state.feed(WAIT_MS) as feed:
        assert feed.next() is None
        assert feed.place is not None


def test_a_kept_place_brings_what_happened_in_between(state, rows):
    with state.feed(WAIT_MS) as feed:
        seen = rows.plant()
        read(feed)
        state.keep_place(feed.place)
    missed = rows.plant_many(3)
    with state.feed(WAIT_MS) as feed:
        changes = read(feed, 3)
    assert [change["documentKey"]["_id"] for change in changes] == missed
    assert seen not in missed


def test_a_place_that_was_not_kept_brings_it_all_again(state, rows):
    with state.feed(WAIT_MS) as feed:
        state.keep_place(feed.place)
        first = rows.plant()
        read(feed)
    with state.feed(WAIT_MS) as feed:
        (change,) = read(feed)
    assert change["documentKey"]["_id"] == first


def test_without_a_place_the_stream_begins_now(state, rows):
    rows.plant()
    with state.feed(WAIT_MS) as feed:
        new = rows.plant()
        (change,) = read(feed)
    assert change["documentKey"]["_id"] == new


def _aged(token, seconds):
    """A resume token whose cluster time lies elsewhere: a type byte, then the seconds, all in hex."""
    data = token["_data"]
    assert data.startswith("82")
    return {"_data": data[:2] + f"{int(data[2:10], 16) + seconds:08x}".upper() + data[10:]}


USELESS = {
    "garbage": lambda _token: {"_data": "zz"},
    "empty": lambda _token: {"_data": ""},
    "of another form": lambda _token: {"x": 1},
    "cut short": lambda token: {"_data": token["_data"][:12]},
    "older than the oplog": lambda token: _aged(token, -400_000_000),
    "of no event": lambda token: _aged(token, -1),
}


@pytest.mark.parametrize("name", USELESS)
def test_a_place_that_the_server_refuses_is_dropped_and_the_scan_finds_the_rest(db, state, rows, name):
    with state.feed(WAIT_MS) as feed:
        rows.plant()
        read(feed)
        token = feed.place
    missed = rows.plant_many(2)
    state.keep_place(USELESS[name](token))

    with state.feed(WAIT_MS) as feed:
        new = rows.plant()
        (change,) = read(feed)
        assert change["documentKey"]["_id"] == new
        assert db["relay_state"].find_one({"_id": "place"}) is None
    scanned = [row["_id"] for chunk in Backlog(db).not_enqueued(later(0), 100) for row in chunk]
    assert set(missed) <= set(scanned)


def test_a_place_behind_the_end_of_the_collection_is_dropped_too(stack):
    """The token of an invalidation: nothing can be resumed behind it."""
    database = connect(stack.mongod.url, f"test_{uuid.uuid4().hex}", "tests")
    try:
        messages = database["notification_messages"]
        messages.insert_one({"_id": 1})
        with messages.watch(max_await_time_ms=WAIT_MS) as stream:
            messages.drop()
            deadline = datetime.now(UTC) + PATIENCE
            while (change := stream.try_next()) is None or change["operationType"] != "invalidate":
                assert datetime.now(UTC) < deadline
            token = change["_id"]
        state = RelayState(database)
        state.keep_place(token)
        with state.feed(WAIT_MS) as feed:
            messages.insert_one({"_id": 2})
            (seen,) = read(feed)
        assert seen["documentKey"]["_id"] == 2
    finally:
        database.client.drop_database(database.name)
        database.client.close()


# --- the lease ------------------------------------------------------------------------------------------------


def test_one_of_two_relays_holds_the_lease(state):
    assert state.hold_lease("a", 60_000)
    assert not state.hold_lease("b", 60_000)
    assert state.hold_lease("a", 60_000)


def test_a_lease_that_ran_out_passes_to_the_next(state):
    assert state.hold_lease("a", 200)
    deadline = later(10)
    while not state.hold_lease("b", 60_000):
        assert datetime.now(UTC) < deadline
    assert not state.hold_lease("a", 60_000)


def test_a_refused_relay_does_not_shorten_or_lengthen_the_lease(db, state):
    state.hold_lease("a", 60_000)
    before = db["relay_state"].find_one({"_id": "lease"})
    state.hold_lease("b", 5)
    state.hold_lease("b", 900_000)
    assert db["relay_state"].find_one({"_id": "lease"}) == before


def test_renewing_moves_the_end(db, state):
    state.hold_lease("a", 1_000)
    state.hold_lease("a", 60_000)
    assert db["relay_state"].find_one({"_id": "lease"})["expiresAt"] > later(50)


def test_a_lease_given_back_is_free_at_once_and_only_its_owner_gives_it(state):
    state.hold_lease("a", 60_000)
    state.drop_lease("b")
    assert not state.hold_lease("b", 60_000)
    state.drop_lease("a")
    assert state.hold_lease("b", 60_000)


def test_of_eight_relays_at_once_one_wins(db):
    start = threading.Barrier(8)

    def ask(number):
        state = RelayState(db)
        start.wait(10)
        return state.hold_lease(f"relay-{number}", 60_000)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 1


def test_place_and_lease_do_not_touch_each_other(db, state):
    state.hold_lease("a", 60_000)
    state.keep_place({"_data": "x"})
    state.forget_place()
    assert not state.hold_lease("b", 60_000)
    state.keep_place({"_data": "x"})
    state.drop_lease("a")
    assert db["relay_state"].find_one({"_id": "place"})["token"] == {"_data": "x"}
