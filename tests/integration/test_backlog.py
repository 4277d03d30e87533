"""What relay and sweep find: by its time, in order, and nothing that is not theirs."""

from datetime import UTC, datetime, timedelta

import pytest

from shared.adapters.mongo.backlog import Backlog


def at(seconds):
    return datetime.now(UTC) + timedelta(seconds=seconds)


@pytest.fixture
def backlog(db):
    return Backlog(db)


def ids(chunks):
    return [row["_id"] for chunk in chunks for row in chunk]


def test_what_is_in_the_window_and_not_on_the_broker_in_the_order_of_time(backlog, rows):
    late, soon, now = rows.plant(scheduledAt=at(100)), rows.plant(scheduledAt=at(10)), rows.plant(scheduledAt=at(-5))
    rows.plant(scheduledAt=at(10_000))
    rows.plant(enqueuedAt=at(-1))
    rows.plant(status="sent")
    rows.plant(isDeleted=True)
    missing = rows.plant(scheduledAt=at(50), enqueuedAt=...)
    assert ids(backlog.not_enqueued(at(3600), 100)) == [now, soon, missing, late]


def test_chunks_are_full_but_the_last(backlog, rows):
    planted = rows.plant_many(7)
    chunks = list(backlog.not_enqueued(at(0), 3))
    assert [len(chunk) for chunk in chunks] == [3, 3, 1]
    assert sorted(ids(chunks)) == sorted(planted)
    assert list(backlog.not_enqueued(at(-3600), 3)) == []


OVERDUE = {
    "rung long ago": lambda: {"enqueuedAt": at(-600)},
    "never rung": lambda: {"enqueuedAt": None},
    "never rung, field missing": lambda: {"enqueuedAt": ...},
    "back-off is over": lambda: {"enqueuedAt": at(-600), "nextAttemptAt": at(-1)},
    "back-off missing": lambda: {"enqueuedAt": at(-600), "nextAttemptAt": ...},
    "under a claim, for the sweep to leave alone": lambda: {"claim": {"owner": "x", "expiresAt": at(60)}},
}
NOT_OVERDUE = {
    "rung lately": lambda: {"enqueuedAt": at(-60)},
    "ahead": lambda: {"scheduledAt": at(5)},
    "in back-off": lambda: {"nextAttemptAt": at(5)},
    "sent": lambda: {"status": "sent"},
    "ended": lambda: {"status": "is_missed"},
    "deleted": lambda: {"isDeleted": True},
}


@pytest.mark.parametrize("name", OVERDUE)
def test_rows_that_rang_in_vain_are_overdue(backlog, rows, name):
    row_id = rows.plant(**OVERDUE[name]())
    assert ids(backlog.overdue(at(0), at(-300), 100)) == [row_id]


@pytest.mark.parametrize("name", NOT_OVERDUE)
def test_others_are_not(backlog, rows, name):
    rows.plant(**NOT_OVERDUE[name]())
    assert ids(backlog.overdue(at(0), at(-300), 100)) == []


@pytest.mark.parametrize(
    ("fields", "awaited"),
    [
        (dict, True),
        (lambda: {"enqueuedAt": ...}, True),
        (lambda: {"nextAttemptAt": at(60)}, False),
        (lambda: {"enqueuedAt": at(-10)}, False),
        (lambda: {"status": "pending"}, False),
        (lambda: {"status": "success"}, False),
        (lambda: {"isDeleted": True}, False),
    ],
)
def test_receipts_that_should_have_been_asked_for(backlog, rows, fields, awaited):
    row = {"status": "sent", "nextAttemptAt": at(-1), "enqueuedAt": at(-600), "ticketId": "t", "sentAt": at(-900)}
    row_id = rows.plant(**{**row, **fields()})
    assert ids(backlog.awaiting_receipt(at(0), at(-300), 100)) == ([row_id] if awaited else [])


def test_rows_without_bookkeeping_are_found_whatever_else_they_lack(backlog, rows):
    bare = rows.plant(isDeleted=..., status=..., localDate=..., scheduledAt=...)
    rows.plant()
    rows.plant(isDeleted=True)
    assert ids(backlog.foreign(100)) == [bare]


def test_incomplete_are_those_without_flag_or_device(backlog, rows):
    bare, homeless = rows.plant(isDeleted=...), rows.plant(deviceId=None)
    nowhere = rows.plant(deviceId=...)
    whole, ended = rows.plant(), rows.plant(deviceId=None, status="failed")
    found = backlog.incomplete([bare, homeless, nowhere, whole, ended])
    assert {row["_id"] for row in found} == {bare, homeless, nowhere}


def test_ringable_are_the_live_ones(backlog, rows):
    live, sent, gone = rows.plant(), rows.plant(status="sent"), rows.plant(isDeleted=True)
    (row,) = backlog.ringable([live, sent, gone])
    assert row["_id"] == live
    assert {"category", "scheduledAt", "nextAttemptAt"} <= row.keys()


def test_a_copy_goes_in_once(backlog, rows):
    copy = rows.document(_id="copy", reminderId=...)
    assert backlog.insert_copy(dict(copy)) is True
    assert backlog.insert_copy(dict(copy)) is False
    assert rows.collection.count_documents({}) == 1
