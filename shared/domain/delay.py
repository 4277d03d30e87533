"""How long the broker holds a message, in one place, because it closes the connection on a malformed delay."""

from datetime import datetime, timedelta

# The broker rounds the start of a delay up to the next half second. Ringing that much early and waiting the rest in
# the consumer, on the database's clock, takes a quarter of a second off the mean lateness.
RING_LEAD = timedelta(milliseconds=550)
_MILLISECOND = timedelta(milliseconds=1)


def delay_ms(due: datetime, now: datetime, window: timedelta) -> int:
    """Whole milliseconds from `now` to shortly before `due`, at most `window`; 0 for what should ring at once.

    The exact difference, never whole seconds: many jobs on one millisecond of the broker's clock slow it down.
    """
    return max(0, min((due - RING_LEAD - now) // _MILLISECOND, window // _MILLISECOND))
