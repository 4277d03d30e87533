import contextlib
from datetime import UTC, datetime, time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.domain.documents import BadDocument, is_expo_token, parse_reminder, parse_token, parse_user
from shared.domain.states import SkipReason
from shared.domain.zones import parse_zone

ZONE = parse_zone("Europe/Copenhagen")
USER = {"_id": 1, "timezone": "Europe/Copenhagen"}
REMINDER = {"_id": 1, "userId": 1, "category": "meal", "label": "lunch", "localTimes": ["12:00"]}
TOKEN = {"_id": 1, "userId": 1, "deviceId": "d", "token": "ExponentPushToken[a]", "isActive": True}


def without(document, name):
    return {key: value for key, value in document.items() if key != name}


def test_the_least_that_a_user_says_has_friendly_defaults():
    user = parse_user(USER)
    assert (user.is_active, user.enabled, user.allowed_hours, user.locale) == (True, True, None, None)
    assert user.wants("meal")
    assert user.timezone == "Europe/Copenhagen"


def test_an_alias_of_a_zone_is_fine():
    assert parse_user({**USER, "timezone": "US/Pacific"}).zone is not None


@pytest.mark.parametrize(
    ("preferences", "wanted"),
    [
        ({}, True),
        (None, True),
        ({"enabled": None}, True),
        ({"enabled": False}, False),
        ({"categories": {"meal": False}}, False),
        ({"categories": {"meal": None}}, True),
        ({"categories": {"mood": False}}, True),
        ({"enabled": False, "categories": {"meal": True}}, False),
    ],
)
def test_a_category_is_wanted_unless_refused(preferences, wanted):
    assert parse_user({**USER, "preferences": preferences}).wants("meal") is wanted


@pytest.mark.parametrize("value", [None, "", "Nowhere/Town", 5, "../etc/passwd", "Europe", [], {}, "\x00"])
def test_a_zone_that_is_none_is_counted_as_such(value):
    with pytest.raises(BadDocument) as caught:
        parse_user({**USER, "timezone": value})
    assert caught.value.reason is SkipReason.BAD_TIMEZONE


@pytest.mark.parametrize(
    "fields",
    [
        {"isActive": "yes"},
        {"isActive": 0},
        {"preferences": "none"},
        {"preferences": []},
        {"preferences": {"enabled": "false"}},
        {"preferences": {"categories": ["meal"]}},
        {"preferences": {"categories": {"meal": "no"}}},
        {"preferences": {"allowedHours": "7-22"}},
        {"preferences": {"allowedHours": {"start": "7"}}},
        {"preferences": {"allowedHours": {"start": "07:00", "end": "25:00"}}},
    ],
    ids=repr,
)
def test_wishes_that_cannot_be_read_are_a_bad_document(fields):
    with pytest.raises(BadDocument) as caught:
        parse_user({**USER, **fields})
    assert caught.value.reason is SkipReason.BAD_DOCUMENT


def test_a_locale_of_a_wrong_type_is_none():
    assert parse_user({**USER, "locale": 5}).locale is None


# --- reminders ------------------------------------------------------------------------------------------------


def test_a_reminder_of_every_day():
    reminder = parse_reminder(REMINDER, ZONE)
    assert reminder.times == ((time(12, 0), "12:00"),)
    assert (reminder.is_live, reminder.not_before, reminder.bad_times) == (True, None, ())


def test_nothing_is_due_before_it_was_written_or_last_edited():
    created, updated = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    for fields, bound in [
        ({"createdAt": created}, created),
        ({"updatedAt": updated}, updated),
        ({"createdAt": created, "updatedAt": updated}, updated),
        ({"createdAt": updated.replace(tzinfo=None)}, updated),
    ]:
        assert parse_reminder({**REMINDER, **fields}, ZONE).not_before == bound


@pytest.mark.parametrize(
    ("fields", "live"),
    [({"isActive": False}, False), ({"isDeleted": True}, False), ({"isActive": None, "isDeleted": None}, True)],
)
def test_a_reminder_lives_until_it_is_switched_off_or_deleted(fields, live):
    assert parse_reminder({**REMINDER, **fields}, ZONE).is_live is live


def test_one_bad_time_does_not_cost_the_good_ones():
    reminder = parse_reminder({**REMINDER, "localTimes": ["12:00", "25:00", 5, None, ["a"], "08:30", "12:00"]}, ZONE)
    assert [key for _, key in reminder.times] == ["12:00", "08:30"]
    assert len(reminder.bad_times) == 4


BAD_REMINDERS = [
    ({"localTimes": []}, SkipReason.BAD_LOCAL_TIME),
    ({"localTimes": None}, SkipReason.BAD_LOCAL_TIME),
    ({"localTimes": "12:00"}, SkipReason.BAD_LOCAL_TIME),
    ({"localTimes": ["noon"]}, SkipReason.BAD_LOCAL_TIME),
    ({"recurrence": "FREQ=HOURLY"}, SkipReason.BAD_RECURRENCE),
    ({"recurrence": 5}, SkipReason.BAD_RECURRENCE),
    ({"recurrence": "FREQ=DAILY;INTERVAL=0"}, SkipReason.BAD_RECURRENCE),
    ({"category": None}, SkipReason.BAD_DOCUMENT),
    ({"category": ""}, SkipReason.BAD_DOCUMENT),
    ({"label": 5}, SkipReason.BAD_DOCUMENT),
    ({"isActive": "yes"}, SkipReason.BAD_DOCUMENT),
    ({"createdAt": "yesterday"}, SkipReason.BAD_DOCUMENT),
    ({"updatedAt": 5}, SkipReason.BAD_DOCUMENT),
    ({"startsOn": "2026-02-30"}, SkipReason.BAD_DOCUMENT),
    ({"startsOn": 5}, SkipReason.BAD_DOCUMENT),
    ({"endsOn": datetime(2026, 1, 1, tzinfo=UTC)}, SkipReason.BAD_DOCUMENT),
]


@pytest.mark.parametrize(("fields", "reason"), BAD_REMINDERS, ids=repr)
def test_a_reminder_that_cannot_be_understood_says_why(fields, reason):
    with pytest.raises(BadDocument) as caught:
        parse_reminder({**REMINDER, **fields}, ZONE)
    assert caught.value.reason is reason
    assert str(caught.value)


@pytest.mark.parametrize("created", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)])
def test_a_reminder_written_at_the_edge_of_the_calendar_raises_nothing_else(created):
    for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
        try:
            parse_reminder({**REMINDER, "createdAt": created}, parse_zone(zone))
        except BadDocument:
            continue


# --- tokens -----------------------------------------------------------------------------------------------------

GOOD_TOKENS = [
    "ExponentPushToken[abc-DEF_123]",
    "ExpoPushToken[x]",
    "ExponentPushToken[a@garden]",
    "f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "F47AC10B-58CC-4372-A567-0E02B2C3D479",
]
BAD_TOKENS = [
    None,
    5,
    "",
    "abc",
    "ExponentPushToken[]",
    "ExponentPushToken[a",
    "ExponentPushToken[a]b",
    "ExponentPushToken[a b]",
    "ExponentPushToken[a][b]",
    "ExponentPushToken[a]\n",
    "exponentpushtoken[a]",
    "f47ac10b58cc4372a5670e02b2c3d479",
    "{f47ac10b-58cc-4372-a567-0e02b2c3d479}",
    "urn:uuid:f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "ExponentPushToken[" + "a" * 201 + "]",
    ["ExponentPushToken[a]"],
]


@pytest.mark.parametrize("value", GOOD_TOKENS)
def test_forms_that_expo_knows(value):
    assert is_expo_token(value)
    assert parse_token({**TOKEN, "token": value}).token == value


@pytest.mark.parametrize("value", BAD_TOKENS, ids=repr)
def test_forms_that_expo_does_not_know(value):
    assert not is_expo_token(value)
    with pytest.raises(BadDocument) as caught:
        parse_token({**TOKEN, "token": value})
    assert caught.value.reason is SkipReason.BAD_TOKEN
    assert not value or str(value) not in str(caught.value)


@pytest.mark.parametrize("device", [None, ""])
def test_a_token_without_a_device_is_a_bad_document(device):
    with pytest.raises(BadDocument) as caught:
        parse_token({**TOKEN, "deviceId": device})
    assert caught.value.reason is SkipReason.BAD_DOCUMENT


def test_a_token_is_active_only_if_it_says_so():
    assert parse_token(TOKEN).is_active
    assert not parse_token(without(TOKEN, "isActive")).is_active


def test_a_project_of_a_wrong_type_is_none():
    assert parse_token({**TOKEN, "project": 5}).project is None
    assert parse_token({**TOKEN, "project": "@a/b"}).project == "@a/b"


# --- whatever others write ------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.datetimes()
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def documents(base):
    return st.fixed_dictionaries({}, optional={name: VALUES | st.just(value) for name, value in base.items()}).map(
        lambda fields: {"_id": 1, **fields}
    )


@settings(deadline=None, max_examples=200)
@given(documents({**USER, "isActive": True, "locale": "en", "preferences": {"allowedHours": None, "categories": {}}}))
def test_no_user_raises_anything_but_bad_document(document):
    with contextlib.suppress(BadDocument):
        parse_user(document)


@settings(deadline=None, max_examples=200)
@given(
    documents(
        {
            **REMINDER,
            "recurrence": "FREQ=DAILY",
            "startsOn": "2026-01-01",
            "endsOn": "2026-02-01",
            "createdAt": datetime(2026, 1, 1, tzinfo=UTC),
            "updatedAt": None,
            "isActive": True,
            "isDeleted": False,
            "data": {},
        }
    )
)
def test_no_reminder_raises_anything_but_bad_document(document):
    with contextlib.suppress(BadDocument):
        parse_reminder(document, ZONE)


@settings(deadline=None, max_examples=200)
@given(documents({**TOKEN, "project": "p", "createdAt": datetime(2026, 1, 1, tzinfo=UTC)}))
def test_no_token_raises_anything_but_bad_document(document):
    with contextlib.suppress(BadDocument):
        parse_token(document)
