"""How long to wait before trying again: exponential, capped, jittered. Pure: the random number is passed in."""

FIRST_MS = 4_000
LONGEST_MS = 300_000
_RECEIPT_LONGEST_MS = 7_200_000


def retry_ms(attempts: int, chance: float) -> int:
    """Milliseconds before the next try after `attempts` (from 1) refusals; `chance` in [0, 1) spreads the herd."""
    ceiling = min(LONGEST_MS, FIRST_MS * 2 ** min(max(attempts, 1) - 1, 16))
    return int(ceiling * (0.5 + chance / 2))


def receipt_ms(waited_ms: int, first_ms: int) -> int:
    """Milliseconds before asking again for a receipt that was not there after `waited_ms`: as long again, capped."""
    return max(first_ms, min(waited_ms, _RECEIPT_LONGEST_MS))
