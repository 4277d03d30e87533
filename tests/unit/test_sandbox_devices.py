import pytest

from deploy.local.sandbox.devices import Arrival, Devices, DevicesError, is_push_token
from deploy.local.sandbox.moments import Moment

_IPHONE = "ExponentPushToken[iphone]"
_PIXEL = "ExponentPushToken[pixel]"
_NOON = Moment(wall=1_780_000_000.0, steady=50.0)


@pytest.fixture
def devices():
    known = Devices()
    known.update({_IPHONE: {"platform": "ios"}, _PIXEL: {"platform": "android"}})
    return known


def _seen(devices, token):
    return dict(devices.describe())[token]


@pytest.mark.parametrize(
    ("token", "message", "second"),
    [
        (_IPHONE, {"collapseId": "c"}, Arrival.REPLACED),
        (_IPHONE, {"tag": "c"}, Arrival.SHOWN),
        (_PIXEL, {"tag": "c"}, Arrival.REPLACED),
        (_PIXEL, {"collapseId": "c"}, Arrival.SHOWN),
        (_IPHONE, {}, Arrival.SHOWN),
    ],
)
def test_each_platform_replaces_by_its_own_key(devices, token, message, second):
    later = Moment(_NOON.wall + 2, _NOON.steady + 2)

    assert devices.receive(token, message | {"title": "first"}, "m1", _NOON) is Arrival.SHOWN
    assert devices.receive(token, message | {"title": "second"}, "m2", later) is second

    seen = _seen(devices, token)
    assert seen["arrivals"] == 2
    if second is Arrival.REPLACED:
        (only,) = seen["shown"]
        assert (only["title"], only["messageId"], only["replaced"]) == ("second", "m2", 1)
        assert (only["at"], only["lastAt"]) == ("2026-05-28T20:26:40.000Z", "2026-05-28T20:26:42.000Z")
    else:
        assert [one["messageId"] for one in seen["shown"]] == ["m1", "m2"]


def test_one_phone_does_not_replace_on_another(devices):
    other = "ExpoPushToken[other]"

    assert devices.receive(_IPHONE, {"collapseId": "c"}, "m1", _NOON) is Arrival.SHOWN
    assert devices.receive(other, {"collapseId": "c"}, "m1", _NOON) is Arrival.SHOWN


@pytest.mark.parametrize(
    ("message", "arrival"),
    [
        ({"expiration": _NOON.wall - 1}, Arrival.EXPIRED),
        ({"expiration": _NOON.wall}, Arrival.EXPIRED),
        ({"expiration": _NOON.wall + 1}, Arrival.SHOWN),
        ({"expiration": _NOON.wall - 1, "ttl": 60}, Arrival.SHOWN),
        ({"ttl": 0}, Arrival.SHOWN),
    ],
)
def test_what_has_expired_is_never_seen(devices, message, arrival):
    assert devices.receive(_IPHONE, message, "m", _NOON) is arrival

    seen = _seen(devices, _IPHONE)
    assert (seen["expired"], len(seen["shown"])) == ((1, 0) if arrival is Arrival.EXPIRED else (0, 1))


def test_a_gone_phone_shows_nothing(devices):
    devices.update({_IPHONE: {"state": "gone"}})

    assert devices.receive(_IPHONE, {}, "m", _NOON) is Arrival.VANISHED
    assert _seen(devices, _IPHONE)["shown"] == []
    assert _seen(devices, _IPHONE)["arrivals"] == 0


@pytest.mark.parametrize(
    "bad",
    [
        [],
        {"no token": {}},
        {_PIXEL: "gone"},
        {_PIXEL: {"state": "dead"}},
        {_PIXEL: {"state": ["gone"]}},
        {_PIXEL: {"platform": "windows"}},
        {_PIXEL: {"project": ""}},
        {_PIXEL: {"colour": "red"}},
    ],
)
def test_a_bad_update_changes_nothing(devices, bad):
    changes = {_IPHONE: {"state": "gone"}} | bad if isinstance(bad, dict) else bad
    before = dict(devices.describe())

    with pytest.raises(DevicesError):
        devices.update(changes)

    assert dict(devices.describe()) == before


def test_projects_come_from_the_token_or_from_registering(devices):
    assert devices.project("ExponentPushToken[a]") == "@sandbox/default"
    assert devices.project("ExponentPushToken[a@garden]") == "@sandbox/garden"
    devices.update({"ExponentPushToken[a@garden]": {"project": "@me/shop"}})
    assert devices.project("ExponentPushToken[a@garden]") == "@me/shop"


@pytest.mark.parametrize(
    ("token", "valid"),
    [
        ("ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", True),
        ("ExpoPushToken[a-b_c]", True),
        ("0fc3a1d2-1b2c-4d5e-8f90-a1b2c3d4e5f6", True),
        ("ExponentPushToken[]", False),
        ("ExponentPushToken[a", False),
        ("exponentpushtoken[a]", False),
        ("ExponentPushToken[a]\n", False),
        ("0fc3a1d2", False),
        ("", False),
    ],
)
def test_the_form_of_a_token(token, valid):
    assert is_push_token(token) is valid
