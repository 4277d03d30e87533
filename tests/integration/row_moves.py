"""What the tests of the moves say of rows."""

from datetime import UTC, datetime, timedelta

ENDED = ("success", "failed", "is_missed")


def at(seconds):
    """A whole millisecond, as the server keeps it."""
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def refuses(rows, row_id, move):
    """The move matches nothing and changes nothing."""
    before = rows.see(row_id)
    moved = rows.make(move)
    return moved == 0 and rows.see(row_id) == before
