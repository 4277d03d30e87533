import asyncio
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deploy.local.sandbox.journal import Journal
from deploy.local.sandbox.limits import InFlight, SlidingSecond
from deploy.local.sandbox.receipts import Outcome, Receipts

_TICKS = 1024  # a second in ticks that floats hold exactly, so that its very edge is judged too


@given(
    steps=st.lists(st.tuples(st.integers(0, 600), st.integers(1, 400)), max_size=60),
    limit=st.integers(1, 600),
)
@example(steps=[(0, 5), (_TICKS, 5)], limit=5)
@example(steps=[(0, 5), (_TICKS - 1, 5)], limit=5)
def test_no_second_ever_holds_more_than_the_limit(steps, limit):
    window, now, admitted = SlidingSecond(limit), 0, []
    for ticks, recipients in steps:
        now += ticks
        recent = sum(count for at, count in admitted if at > now - _TICKS)
        has_room = window.has_room(recipients, now / _TICKS)
        assert has_room is (recent + recipients <= limit)
        if has_room:
            window.admit(recipients, now / _TICKS)
            admitted.append((now, recipients))


def test_a_limit_of_zero_is_none():
    window, flights = SlidingSecond(0), InFlight(0)
    window.admit(10**6, 0.0)

    assert window.has_room(10**6, 0.0)
    assert not flights.is_over(10**6)


def test_requests_in_flight_are_counted_until_they_end():
    flights = InFlight(1)

    with flights.entered() as first, flights.entered() as second:
        assert (flights.is_over(first), flights.is_over(second)) == (False, True)
    with flights.entered() as again:
        assert again == 1


@pytest.fixture
def receipts():
    return Receipts(delay_seconds=10.0)


def test_a_receipt_is_there_from_its_delay_until_a_day_later(receipts):
    ticket_id = receipts.issue(100.0, None)

    ages = (9.9, 10.0, 24 * 3600 - 0.1, 24 * 3600.0)
    assert [bool(receipts.look_up([ticket_id], 100.0 + age)) for age in ages] == [False, True, True, False]
    assert receipts.look_up([ticket_id], 110.0) == {ticket_id: {"status": "ok"}}


def test_receipts_depart_as_ordered(receipts):
    error = {"status": "error", "message": "no"}
    ids = [
        receipts.issue(0.0, Outcome(receipt=error)),
        receipts.issue(0.0, Outcome(missing=True)),
        receipts.issue(0.0, Outcome(delay_seconds=50.0)),
        receipts.issue(0.0, None),
    ]

    assert receipts.look_up(ids, 10.0) == {ids[0]: error, ids[3]: {"status": "ok"}}
    assert ids[2] in receipts.look_up(ids, 50.0)


def test_ids_of_nobody_and_of_another_run_are_absent(receipts):
    ticket_id = receipts.issue(0.0, None)
    foreign = Receipts(0.0).issue(0.0, None)
    strange = [
        foreign,
        "",
        "x",
        ticket_id.upper() + " ",
        ticket_id[:-1] + "9",
        ticket_id[:24] + "-00000000001",
    ]

    assert receipts.look_up(strange, 20.0) == {}


@pytest.mark.parametrize("after", [0, 1, 1023, 1024, 1025, 2500, 3000, 3001])
def test_a_journal_gives_back_what_came_after(after):
    journal = Journal()
    lines = [json.dumps({"n": n}).encode() for n in range(3000)]
    for start in range(0, 3000, 70):
        journal.extend(lines[start : start + 70])

    assert len(journal) == 3000
    assert b"".join(journal.since(after)).splitlines() == lines[after:]


def test_a_journal_keeps_its_file_even_when_cleared(tmp_path):
    path = tmp_path / "ledger"
    journal = Journal(path)
    journal.extend([b"1", b"2"])
    journal.clear()
    journal.extend([b"3"])

    assert path.read_bytes() == b"1\n2\n3\n"
    assert b"".join(journal.since(0)) == b"3\n"


def test_a_reader_is_woken_by_the_line_it_waits_for():
    async def scenario():
        journal = Journal()
        reader = asyncio.create_task(journal.wait_beyond(1, seconds=30))
        await asyncio.sleep(0)
        journal.extend([b"1"])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not reader.done()
        journal.extend([b"2"])
        await asyncio.wait_for(reader, timeout=5)

    asyncio.run(scenario())


def test_a_reader_gives_up_after_its_time():
    async def scenario():
        await asyncio.wait_for(Journal().wait_beyond(0, seconds=0.01), timeout=5)

    asyncio.run(scenario())
