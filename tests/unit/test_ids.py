from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from bson import Int64, ObjectId

from shared.domain.decision import Circumstances, Miss, Rules, Send, decide
from shared.domain.documents import parse_reminder, parse_token, parse_user
from shared.domain.ids import id_key
from shared.domain.policy import CategoryPolicy
from shared.domain.states import Reason

OID = ObjectId("665a00000000000000000001")
DUE = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
RULES = Rules(CategoryPolicy(timedelta(minutes=30)), 5, timedelta(seconds=30))


@pytest.mark.parametrize("pair", [(True, 1), (False, 0), (True, 1.0), ("1", 1), (str(OID), OID), (None, 0)])
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one], lambda one: {"a": one}, lambda one: {"a": [one]}])
def test_ids_that_the_database_tells_apart_have_keys_apart(pair, wrap):
    first, second = (id_key(wrap(one)) for one in pair)
    assert first != second
    assert len({first, second}) == 2


@pytest.mark.parametrize(
    "pair", [(1, 1.0), (1, Int64(1)), (True, True), (OID, ObjectId(str(OID))), ({"a": 1}, {"a": 1})]
)
def test_ids_that_are_one_to_the_database_have_one_key(pair):
    assert len({id_key(one) for one in pair}) == 1


def test_the_order_of_the_fields_is_part_of_an_id():
    assert id_key({"a": 1, "b": 2}) != id_key({"b": 2, "a": 1})


def known(user_id, *, reminder_of, token_of):
    user = parse_user({"_id": user_id, "timezone": "UTC"})
    texts = {"category": "meal", "label": "lunch", "localTimes": ["12:00"], "title": "Lunch", "body": "Eat"}
    reminder = parse_reminder({"_id": "r", "userId": reminder_of, **texts}, user.zone)
    token = parse_token(
        {"_id": "t", "userId": token_of, "deviceId": "d", "token": "ExponentPushToken[a]", "isActive": True}
    )
    return Circumstances(user, reminder, token)


def row(user_id):
    return {
        "_id": "row",
        "userId": user_id,
        "deviceId": "d",
        "notificationTokenId": "t",
        "reminderId": "r",
        "category": "meal",
        "label": "lunch",
        "localDate": "2026-06-01",
        "localTime": "12:00",
        "timezone": "UTC",
        "scheduledAt": DUE,
    }


@pytest.mark.parametrize(("mine", "theirs"), [(1, True), (True, 1), (0, False)])
def test_nobody_gets_what_belongs_to_an_id_that_only_python_takes_for_the_same(mine, theirs):
    right = known(mine, reminder_of=mine, token_of=mine)
    assert isinstance(decide(row(mine), right, RULES, DUE), Send)
    others = known(mine, reminder_of=theirs, token_of=theirs)
    assert decide(row(mine), replace(right, reminder=others.reminder), RULES, DUE) == Miss(Reason.REMINDER_CANCELLED)
    assert decide(row(mine), replace(right, device_token=others.device_token), RULES, DUE) == Miss(Reason.SUPERSEDED)
