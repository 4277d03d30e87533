"""What a category allows: how late it may be, what to do about an unknown outcome, how it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

OnUnknown = Literal["resend_once", "give_up"]


@dataclass(frozen=True)
class CategoryPolicy:
    """One category's rules. The presentation fields go to Expo as they are; None leaves Expo's default."""

    grace: timedelta
    on_unknown: OnUnknown = "resend_once"
    ignore_allowed_hours: bool = False
    priority: str | None = None
    interruption_level: str | None = None
    channel_id: str | None = None
    sound: str | None = "default"

    @property
    def max_unresolved(self) -> int:
        """How many attempts of unknown outcome a row may carry and still be tried again."""
        return 1 if self.on_unknown == "resend_once" else 0


Policies = Mapping[str, CategoryPolicy]
