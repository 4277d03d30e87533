import pytest

from consumer.tokens import BadRegistration, register
from shared.domain.token_moves import Registration

GOOD = {"user_id": "u", "device_id": "d", "token": "ExponentPushToken[a]", "platform": "ios"}


class Store:
    """Remembers what it was asked to store."""

    def __init__(self):
        self.registered = []

    def register(self, registration):
        self.registered.append(registration)
        return "id"


@pytest.mark.parametrize("fields", [{}, {"platform": "android"}, {"user_id": 0}, {"device_id": {"a": 1}}], ids=repr)
def test_good_registrations_are_stored(fields):
    store = Store()
    registration = Registration(**{**GOOD, **fields})
    assert register(store, registration) == "id"
    assert store.registered == [registration]


@pytest.mark.parametrize(
    "fields",
    [
        {"user_id": None},
        {"device_id": None},
        {"device_id": ""},
        {"platform": "windows"},
        {"platform": ""},
        {"token": "hush-hush"},
        {"token": ""},
    ],
    ids=repr,
)
def test_others_are_refused_without_a_word_of_the_token(fields):
    store = Store()
    with pytest.raises(BadRegistration) as caught:
        register(store, Registration(**{**GOOD, **fields}))
    assert "hush" not in str(caught.value)
    assert "ExponentPushToken[a]" not in str(caught.value)
    assert store.registered == []
