"""Messages for the sandbox, and what became of a request, for the tests of the Expo client."""

from consumer.domain.outcomes import NotSent, OutcomeUnknown
from consumer.expo.payload import ExpoMessage

TOKENS = [f"ExponentPushToken[client-{number}]" for number in range(3)]


def messages(tokens=TOKENS, **fields):
    """A message for each of the tokens."""
    return [
        ExpoMessage(token, {"to": token, "title": "t", "data": {"messageId": f"m{number}"}, **fields})
        for number, token in enumerate(tokens)
    ]


def accepted(expo):
    """How many pushes the sandbox accepted."""
    return sum(entry["status"] == "ok" for entry in expo.ledger())


def is_unknown(outcome):
    """Whether the messages were perhaps sent."""
    return isinstance(outcome, OutcomeUnknown)


def is_not_sent(outcome):
    """Whether they were definitely not sent, for another cause than haste."""
    return isinstance(outcome, NotSent) and not outcome.slow_down
