import json
import uuid
from datetime import UTC, datetime

import pytest
from bson import Binary, Decimal128, Int64, ObjectId
from hypothesis import given
from hypothesis import strategies as st

from shared.adapters.mongo.wire_ids import from_wire, to_text, to_wire

IDS = [
    ObjectId("65f0c0ffee65f0c0ffee65f0"),
    "text",
    "",
    "65f0c0ffee65f0c0ffee65f0",
    "$where",
    7,
    -1,
    2**40,
    1.5,
    True,
    datetime(2026, 6, 1, 10, tzinfo=UTC),
    Int64(5),
    Decimal128("1.5"),
    Binary.from_uuid(uuid.UUID(int=1)),
    b"\x00\xff",
    {"a": 1},
    {"id": "x"},
    {"id": {"id": 1}},
    {"a": {"b": ObjectId("65f0c0ffee65f0c0ffee65f0")}},
]


@pytest.mark.parametrize("value", IDS, ids=repr)
def test_every_id_comes_back_as_it_was(value):
    wire = json.loads(json.dumps(to_wire(value)))
    assert isinstance(wire, str | dict)
    again = from_wire(wire)
    assert again == value
    assert isinstance(again, type(value)) or isinstance(value, Binary | bytes | Int64)


def test_an_object_id_travels_as_hex():
    assert to_wire(ObjectId("65f0c0ffee65f0c0ffee65f0")) == "65f0c0ffee65f0c0ffee65f0"


@given(st.text())
def test_texts_come_back_as_texts(value):
    assert from_wire(to_wire(value)) == value


@given(st.dictionaries(st.text(st.characters(exclude_characters="$\0"), min_size=1), st.integers(-(2**31), 2**31)))
def test_documents_come_back_as_documents(value):
    assert from_wire(json.loads(json.dumps(to_wire(value)))) == value


@pytest.mark.parametrize(
    "value", [5, None, True, [], {}, {"$oid": "x"}, {"$date": "never"}, {"$numberLong": "x"}], ids=repr
)
def test_what_is_no_wire_form_is_a_value_error(value):
    with pytest.raises(ValueError, match="ids"):
        from_wire(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$regularExpression": {"pattern": ".*", "options": ""}},
        {"id": {"$regularExpression": {"pattern": ".*", "options": ""}}},
        {"$regex": ".*", "$options": ""},
    ],
    ids=repr,
)
def test_a_pattern_is_no_id(value):
    """No document's id can be one, and in a list of ids it would match whatever it fits."""
    with pytest.raises(ValueError, match="ids"):
        from_wire(value)


def test_ids_for_people():
    assert to_text(ObjectId("65f0c0ffee65f0c0ffee65f0")) == "65f0c0ffee65f0c0ffee65f0"
    assert (to_text("x"), to_text(5)) == ("x", "5")
    assert json.loads(to_text({"a": 1})) == {"a": 1}
