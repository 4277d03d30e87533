"""Who plays in the demonstration: the roles, and how many people play each."""

from enum import StrEnum

CATEGORIES = ("meal", "mood", "activity", "safety", "reminder")


class Role(StrEnum):
    """What is special about somebody. The text completes "3 x …", whatever the number."""

    PLAIN = "wait for their reminder"
    OPTS_OUT = "opted out of the category"
    LEAVES = "closed their account"
    CANCELS = "cancelled the reminder"
    NARROWS = "narrowed their allowed hours"
    LOGS_IN_ANEW = "logged in anew: same phone, new token"
    HANDS_OVER = "handed their phone to another user"
    UNREGISTERED = "removed the app, and Expo knows"
    GONE = "removed the app, and only the receipt will tell"
    ASLEEP = "want to hear nothing at this hour"
    BAD_ZONE = "with Mars/Base for a time zone"
    BAD_TIME = "with a second reminder at 25:61"
    BAD_CATEGORY = "with a second reminder of an unknown category"
    BAD_TOKEN = "with a second phone whose token is abc"  # noqa: S105 - a description, not a secret


# How many people play each role; all others are plain. No single batch may look like a mass extinction of
# devices, or the brake on retiring tokens would rightly not believe it.
CAST: tuple[tuple[Role, int], ...] = (
    (Role.OPTS_OUT, 6),
    (Role.UNREGISTERED, 3),
    (Role.NARROWS, 3),
    (Role.LOGS_IN_ANEW, 4),
    (Role.GONE, 3),
    (Role.ASLEEP, 4),
    (Role.HANDS_OVER, 2),
    (Role.LEAVES, 2),
    (Role.CANCELS, 1),
    (Role.BAD_ZONE, 1),
    (Role.BAD_TIME, 1),
    (Role.BAD_CATEGORY, 1),
    (Role.BAD_TOKEN, 1),
)
