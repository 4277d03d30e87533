import pytest

from consumer.domain.outcomes import Refused, refusal
from shared.domain.states import REASONS, Reason, Status

MEANINGS = {
    "DeviceNotRegistered": Refused(Reason.DEVICE_NOT_REGISTERED),
    "MessageTooBig": Refused(Reason.MESSAGE_TOO_BIG),
    "MessageRateExceeded": Refused(Reason.RATE_EXCEEDED, passing=True),
    "MismatchSenderId": Refused(Reason.CREDENTIALS),
    "InvalidCredentials": Refused(Reason.CREDENTIALS),
    "DeveloperError": Refused(Reason.INVALID_PAYLOAD),
    "ProviderError": Refused(Reason.PROVIDER_ERROR, passing=True),
    "ExpoError": Refused(Reason.PROVIDER_ERROR, passing=True),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_every_known_name_has_its_meaning(name):
    assert refusal(name) == MEANINGS[name]


@pytest.mark.parametrize("name", ["SomethingNew", "", "devicenotregistered", None, 5, [], {}, {"error": "x"}])
def test_anything_else_settles_its_row_as_unknown_error(name):
    assert refusal(name) == Refused(Reason.UNKNOWN_ERROR, passing=False)


@pytest.mark.parametrize("name", [*MEANINGS, "SomethingNew"])
def test_every_meaning_can_end_a_row(name):
    assert refusal(name).reason in REASONS[Status.FAILED]
