"""The indexes the promises rest on: found, missed, made good, and really used."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from pymongo.errors import DuplicateKeyError

from shared.adapters.errors import WrongSchema
from shared.adapters.mongo.client import connect
from shared.adapters.mongo.indexes import check_indexes, create_indexes, declared_indexes, missing_indexes


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
