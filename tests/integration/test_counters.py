"""Counters derived from rows: repeatable, concurrent, sealed, and never inflated or shrunk."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from consumer.counters import run_counters
from shared.adapters.mongo.counters import CounterStore, Span
from shared.domain.states import REASONS, Reason

NOW = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
RETENTION = timedelta(days=90)
DAYS = ("2026-06-01", "2026-06-09", "2026-06-10")
KEY = ("localDate", "category", "label", "status", "reason")
OUTCOMES = [(status.value, reason.value) for status, reasons in REASONS.items() for reason in sorted(reasons)]


@pytest.fixture
def store(db):
    return CounterStore(db)


def plant(rows, count=300, seed=1, **fields):
    """Terminal rows of chance days and outcomes; what the counters must say of them."""
    chance = random.Random(seed)
    documents = []
    for _ in range(count):
        status, reason = chance.choice(OUTCOMES)
        row = {
            "localDate": chance.choice(DAYS),
            "category": chance.choice(["meal", "mood"]),
            "label": chance.choice("ab"),
            "status": status,
            "reason": reason,
        }
        documents.append(rows.document(**{**row, **fields}))
    rows.collection.insert_many(documents)
    return Counter(tuple(row[name] for name in KEY) for row in documents)


def counted(store, span=None):
    return {tuple(one[name] for name in KEY): one["count"] for one in store.read(span or Span())}


def run(store, now=NOW, retention=RETENTION):
    return run_counters(store, now, retention)


def test_counters_add_up_to_the_rows_exactly(store, rows):
    expected = plant(rows)
    run(store)
    assert counted(store) == expected


def test_a_second_run_changes_nothing(store, rows):
    plant(rows)
    run(store)
    before = list(store.read(Span()))
    assert run(store).purged_rows == 0
    assert list(store.read(Span())) == before


def test_rows_that_may_still_change_and_deleted_ones_are_not_counted(store, rows):
    rows.plant_many(3, localDate=DAYS[0])
    rows.plant_many(3, localDate=DAYS[0], status="sent", reason=None)
    rows.plant_many(3, localDate=DAYS[0], isDeleted=True, reason="user_moved")
    run(store)
    assert counted(store) == {}


def test_new_ends_are_added_by_the_next_run(store, rows):
    expected = plant(rows, seed=1)
    run(store)
    expected += plant(rows, seed=2, localDate=DAYS[2])
    run(store)
    assert {key: count for key, count in counted(store).items() if key[0] == DAYS[2]} == {
        key: count for key, count in expected.items() if key[0] == DAYS[2]
    }


def test_four_runs_at_once_from_nothing_count_each_row_once(db, rows):
    expected = plant(rows, 400)
    start = threading.Barrier(4)

    def work(_):
        store = CounterStore(db)
        start.wait(10)
        for _round in range(3):
            run(store)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert counted(CounterStore(db)) == expected


def test_a_day_is_sealed_when_it_is_over_everywhere_and_no_row_can_change(store, rows):
    plant(rows)
    rows.plant(localDate="2026-06-02", status="sent", reason=None)
    report = run(store)
    assert store.sealed_days() == {"2026-06-01"}
    assert (report.counted, report.sealed) == (4, 1)
    finals = {(one["localDate"], one["final"]) for one in store.read(Span())}
    assert finals == {("2026-06-01", True), ("2026-06-09", False), ("2026-06-10", False)}


@pytest.mark.parametrize("status", ["pending", "sent"])
def test_one_open_row_keeps_its_day_open(store, rows, status):
    plant(rows, localDate=DAYS[0])
    row_id = rows.plant(localDate=DAYS[0], status=status, reason=None)
    run(store)
    assert store.sealed_days() == set()
    rows.collection.update_one({"_id": row_id}, {"$set": {"status": "failed", "reason": "unknown_error"}})
    run(store)
    assert store.sealed_days() == {DAYS[0]}
    assert sum(counted(store).values()) == 301


def test_an_open_row_that_was_deleted_does_not_keep_its_day_open(store, rows):
    plant(rows, localDate=DAYS[0])
    rows.plant(localDate=DAYS[0], isDeleted=True)
    run(store)
    assert store.sealed_days() == {DAYS[0]}


def test_a_sealed_day_is_not_counted_again(store, rows):
    expected = plant(rows, localDate=DAYS[0])
    run(store)
    plant(rows, 50, seed=3, localDate=DAYS[0])
    assert run(store).counted == 0
    assert counted(store) == expected


def test_a_purge_takes_the_rows_of_sealed_days_beyond_retention_and_leaves_the_counters(store, rows):
    expected = plant(rows)
    rows.plant_many(4, localDate=DAYS[0], isDeleted=True)
    report = run(store, retention=timedelta(days=5))
    first = sum(count for key, count in expected.items() if key[0] == DAYS[0])
    assert report.purged_rows == first + 4
    assert rows.collection.count_documents({"localDate": DAYS[0]}) == 0
    assert rows.collection.count_documents({}) == 300 - first
    assert counted(store) == expected
    run(store, retention=timedelta(days=5))
    assert counted(store) == expected


def test_a_purge_that_was_killed_half_way_cannot_shrink_a_count(store, rows):
    expected = plant(rows, localDate=DAYS[0])
    run(store)
    half = [row["_id"] for row in rows.collection.find().limit(150)]
    rows.collection.delete_many({"_id": {"$in": half}})
    store.count(DAYS[0])
    assert counted(store) == expected
    run(store, retention=timedelta(days=5))
    assert counted(store) == expected
    assert rows.collection.count_documents({}) == 0


def test_an_open_day_is_never_purged_however_old(store, rows):
    plant(rows, localDate="2020-01-01")
    rows.plant(localDate="2020-01-01", status="sent", reason=None)
    assert run(store).purged_rows == 0
    assert rows.collection.count_documents({}) == 301


def test_deleted_rows_of_days_on_which_nothing_else_happened_go_too(store, rows):
    rows.plant_many(3, localDate="2026-01-01", isDeleted=True)
    recent = rows.plant(localDate=DAYS[2], isDeleted=True)
    assert run(store).purged_rows == 3
    assert [row["_id"] for row in rows.collection.find()] == [recent]


def test_days_are_read_one_by_one_whatever_else_stands_in_the_field(store, rows):
    plant(rows, 30)
    rows.plant(localDate=...)
    rows.plant(localDate=20260601)
    rows.plant(localDate=None)
    rows.plant(localDate="2026-07-01", isDeleted=True)
    assert store.days_with_rows() == sorted(DAYS)


def test_a_day_that_is_no_date_stops_no_run(store, rows):
    expected = plant(rows, 5, localDate="someday")
    run(store)
    assert counted(store) == expected
    assert store.sealed_days() == set()


def test_an_ended_row_without_a_reason_stops_no_run(store, rows):
    expected = plant(rows)
    rows.plant(localDate=DAYS[0], status="failed", reason=...)
    run(store)
    found = counted(store)
    assert {key: count for key, count in found.items() if key[4] in set(Reason)} == expected
    assert sum(found.values()) - sum(expected.values()) in (0, 1)


def test_a_span_is_inclusive_and_open_where_it_says_nothing(store, rows):
    plant(rows)
    run(store)

    def days(span):
        return {key[0] for key in counted(store, span)}

    assert days(Span("2026-06-09", "2026-06-10")) == {"2026-06-09", "2026-06-10"}
    assert days(Span("2026-06-09", "2026-06-09")) == {"2026-06-09"}
    assert days(Span(last="2026-06-01")) == {"2026-06-01"}
    assert days(Span(first="2026-06-10")) == {"2026-06-10"}
