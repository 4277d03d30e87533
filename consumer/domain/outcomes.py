"""What became of a request to Expo, and what Expo's error names mean. Pure.

Source of the names: Expo's push service documentation. They are open-ended: one nobody knows settles its row once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.domain.states import Reason

# --- of one message, by its index in the request ------------------------------------------------------------


@dataclass(frozen=True)
class Accepted:
    """Expo has it; `ticket_id` is what to ask for later."""

    ticket_id: str


@dataclass(frozen=True)
class Refused:
    """Definitely not sent. `passing`: the same request may succeed later."""

    reason: Reason
    passing: bool = False


@dataclass(frozen=True)
class Unclear:
    """Perhaps sent: an answer for this message that says neither yes nor no."""


MessageOutcome = Accepted | Refused | Unclear


# --- of a whole request -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    """Expo answered for each message, in the order of the request."""

    outcomes: Sequence[MessageOutcome]


@dataclass(frozen=True)
class NotSent:
    """Nothing was accepted: it never left, or was turned away whole. `slow_down` if for its rate."""

    why: str
    slow_down: bool = False


@dataclass(frozen=True)
class OutcomeUnknown:
    """Perhaps accepted: the body was on its way and no answer for it is known."""

    why: str


@dataclass(frozen=True)
class CredentialsRefused:
    """Expo does not accept who we say we are. Says nothing about any message."""

    why: str


@dataclass(frozen=True)
class ItemsInvalid:
    """Refused whole because of the messages at these indexes; the others have nothing wrong with them."""

    indexes: frozenset[int]


@dataclass(frozen=True)
class ProjectsMixed:
    """Refused whole because it holds tokens of several projects; `projects` maps token to project."""

    projects: Mapping[str, str]


@dataclass(frozen=True)
class TooMany:
    """Refused whole because it holds too many messages."""


RequestOutcome = Answered | NotSent | OutcomeUnknown | CredentialsRefused | ItemsInvalid | ProjectsMixed | TooMany

_ERRORS: Mapping[str, Refused] = {
    "DeviceNotRegistered": Refused(Reason.DEVICE_NOT_REGISTERED),
    "MessageTooBig": Refused(Reason.MESSAGE_TOO_BIG),
    "MessageRateExceeded": Refused(Reason.RATE_EXCEEDED, passing=True),
    "MismatchSenderId": Refused(Reason.CREDENTIALS),
    "InvalidCredentials": Refused(Reason.CREDENTIALS),
    "DeveloperError": Refused(Reason.INVALID_PAYLOAD),
    "ProviderError": Refused(Reason.PROVIDER_ERROR, passing=True),
    "ExpoError": Refused(Reason.PROVIDER_ERROR, passing=True),
}


def refusal(error: object) -> Refused:
    """The meaning of an error name in a ticket or a receipt; anything unknown, or none, is `unknown_error`."""
    return (
        _ERRORS.get(error, Refused(Reason.UNKNOWN_ERROR)) if isinstance(error, str) else Refused(Reason.UNKNOWN_ERROR)
    )
