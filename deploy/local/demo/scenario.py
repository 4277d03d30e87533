"""What the demonstration is about: documents, what happens after planning, and what must become of everything.

The list of expectations is made from the people alone, and never from what the pipeline has written.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from deploy.local.demo.roles import Role
from shared.domain.token_moves import Registration

Document = dict[str, Any]


class Fate(StrEnum):
    """What must become of one occurrence on one device."""

    ARRIVES = "arrives"
    MISSED = "missed"
    FAILED = "failed"
    SKIPPED = "skipped"
    """Never planned at all."""


@dataclass(frozen=True)
class Expectation:
    """One occurrence on one device, and its fate.

    `token` is the address that it must reach; `former_tokens` are addresses that must no longer get it. `reason` is
    the row's reason, or why the planner skips it; empty for what arrives.
    """

    reminder_id: str
    device_id: str
    token: str
    title: str
    city: str
    fate: Fate
    reason: str = ""
    former_tokens: tuple[str, ...] = ()


@dataclass(frozen=True)
class Edit:
    """A change that the app makes to a document of its own."""

    collection: str
    document_id: str
    fields: Document


@dataclass
class Scenario:
    """The whole cast: documents to insert, what people do after planning, dead phones, and all expectations."""

    due: datetime
    users: list[Document] = field(default_factory=list)
    reminders: list[Document] = field(default_factory=list)
    tokens: list[Document] = field(default_factory=list)
    after_planning: dict[Role, list[Edit | Registration]] = field(default_factory=dict)
    phones: dict[str, dict[str, str]] = field(default_factory=dict)
    expectations: list[Expectation] = field(default_factory=list)
    retired: dict[str, str] = field(default_factory=dict)
    """Token, and why it must be retired in the end."""
    cast: Counter[Role] = field(default_factory=Counter)
    sabotaged_token: str = ""
    """The request that carries this token is accepted and answered with a server error."""

    def expected(self, fate: Fate) -> list[Expectation]:
        """All expectations of one fate."""
        return [one for one in self.expectations if one.fate is fate]

    @property
    def planned(self) -> int:
        """How many rows the planners must make, together."""
        return len(self.expectations) - len(self.expected(Fate.SKIPPED))
