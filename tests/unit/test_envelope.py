import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.envelope import (
    Frame,
    Kind,
    Undecodable,
    decode,
    encode,
    format_instant,
    group_by_due,
    parse_instant,
)

DUE = datetime(2026, 3, 29, 7, 0, tzinfo=UTC)
GOOD = {
    "v": 1,
    "kind": "send",
    "category": "meal",
    "dueAt": "2026-03-29T07:00:00Z",
    "ids": ["65f0c0ffee65f0c0ffee65f0"],
}


def test_the_wire_form_is_the_contract():
    frame = Frame(Kind.SEND, "meal", DUE, ("65f0c0ffee65f0c0ffee65f0",))
    assert encode(frame) == (
        '{"v":1,"kind":"send","category":"meal","dueAt":"2026-03-29T07:00:00Z","ids":["65f0c0ffee65f0c0ffee65f0"]}'
    )
    assert json.loads(encode(Frame(Kind.SEND, "meal", DUE, ("a",), early=1)))["early"] == 1


@given(
    kind=st.sampled_from(Kind),
    category=st.text(),
    due=st.timedeltas(timedelta(days=-9_000), timedelta(days=30_000)).map(lambda away: DUE + away),
    ids=st.lists(st.text() | st.dictionaries(st.text(), st.integers()), min_size=1, max_size=100),
    early=st.integers(0, 3),
)
def test_what_is_encoded_is_decoded(kind, category, due, ids, early):
    due = due.replace(microsecond=due.microsecond // 1000 * 1000)
    frame = Frame(kind, category, due, tuple(ids), early)
    text = encode(frame)
    assert text.isascii()
    assert decode(text, kind) == frame
    assert decode(text.encode(), kind) == frame


BAD = {
    "not JSON": b"hello",
    "not UTF-8": b"\xff\xfe\x00",
    "nothing": b"",
    "too deep": b"[" * 100_000,
    "a list": b"[]",
    "null": b"null",
    **{
        f"{name}={value!r}": json.dumps({**GOOD, name: value}).encode()
        for name, value in [
            ("v", 2),
            ("v", None),
            ("v", "1"),
            ("kind", "receipts"),
            ("kind", None),
            ("kind", []),
            ("category", None),
            ("category", 5),
            ("ids", []),
            ("ids", None),
            ("ids", "abc"),
            ("ids", [1]),
            ("ids", [["a"]]),
            ("ids", [None]),
            ("early", "1"),
            ("early", None),
            ("dueAt", None),
            ("dueAt", 5),
            ("dueAt", "soon"),
            ("dueAt", "2026-03-29T07:00:00"),
            ("dueAt", "2026-13-29T07:00:00Z"),
            ("dueAt", "0001-01-01T00:00:00+14:00"),
            ("dueAt", "9999-12-31T23:59:59-14:00"),
        ]
    },
    **{f"without {name}": json.dumps({k: v for k, v in GOOD.items() if k != name}).encode() for name in GOOD},
}


@pytest.mark.parametrize("name", BAD)
def test_anything_else_is_undecodable_and_nothing_worse(name):
    with pytest.raises(Undecodable) as caught:
        decode(BAD[name], Kind.SEND)
    assert 0 < len(str(caught.value)) <= 200
    assert "\n" not in str(caught.value)


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode())
)
def test_no_bytes_raise_anything_but_undecodable(body):
    with pytest.raises(Undecodable):
        decode(body, Kind.SEND)


def test_unknown_members_of_a_later_minor_version_are_let_through():
    assert decode(json.dumps({**GOOD, "trace": "x"}), Kind.SEND).category == "meal"


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (DUE, "2026-03-29T07:00:00Z"),
        (DUE + timedelta(milliseconds=5), "2026-03-29T07:00:00.005Z"),
        (datetime(2026, 3, 29, 9, 0, tzinfo=timezone(timedelta(hours=2))), "2026-03-29T07:00:00Z"),
    ],
)
def test_instants_are_written_in_utc(instant, text):
    assert format_instant(instant) == text
    assert parse_instant(text) == instant


@pytest.mark.parametrize("value", ["2026-03-29", "2026-03-29T07:00:00", "", "now", None, 5])
def test_an_instant_must_name_its_offset(value):
    with pytest.raises(ValueError, match=r"instant|Invalid isoformat"):
        parse_instant(value)


def test_frames_hold_one_category_and_one_slice_of_a_second_each():
    rows = [
        ("a", "meal", DUE),
        ("b", "mood", DUE),
        ("c", "meal", DUE + timedelta(milliseconds=7)),
        ("d", "meal", DUE + timedelta(seconds=1)),
    ]
    frames = list(group_by_due(Kind.SEND, rows, 100))
    assert {(frame.category, frame.ids) for frame in frames} == {
        ("meal", ("a", "c")),
        ("mood", ("b",)),
        ("meal", ("d",)),
    }


def test_no_row_rings_before_its_own_instant():
    rows = [("a", "meal", DUE + timedelta(milliseconds=ms)) for ms in (10, 40, 25)]
    (frame,) = group_by_due(Kind.SEND, rows, 100)
    assert frame.due_at == DUE + timedelta(milliseconds=40)


@given(count=st.integers(0, 30), size=st.integers(1, 10))
def test_batches_are_full_and_hold_every_row_once(count, size):
    rows = [(str(number), "meal", DUE) for number in range(count)]
    frames = list(group_by_due(Kind.SEND, rows, size))
    assert [one for frame in frames for one in frame.ids] == [str(number) for number in range(count)]
    assert all(len(frame.ids) == size for frame in frames[:-1])
    assert all(1 <= len(frame.ids) <= size for frame in frames)
