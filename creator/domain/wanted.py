"""What a batch of users should have in their future, and what of it exists already. Pure.

Documents go in as they were read; out come the rows to insert and the rows to move or delete. Whatever cannot be
understood is counted under its reason and passed over.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from creator.domain.occurrences import Calendar, Window, allowed_at, occurrence_of, occurrences
from creator.domain.rows import Document, Subject, new_row
from shared.domain.content import Content, render
from shared.domain.documents import (
    BadDocument,
    Reminder,
    Token,
    User,
    parse_reminder,
    parse_token,
    parse_user,
)
from shared.domain.ids import id_key
from shared.domain.moves import Placement
from shared.domain.policy import Policies
from shared.domain.states import DeletedReason, SkipReason, Status

# Told of every document that is passed over because it is wrong: collection, id, reason, detail.
Complain = Callable[[str, Any, SkipReason, str], None]
OccurrenceKey = tuple[Hashable, Hashable, Any, Any]


@dataclass(frozen=True)
class Batch:
    """What was read for some users."""

    users: list[Document]
    reminders: list[Document]
    tokens: list[Document]
    known: list[Document]


@dataclass(frozen=True)
class Moment:
    """When a plan plans: its `now`, how far it looks, and `started`, the server's time before it read anything."""

    now: datetime
    horizon_end: datetime
    started: datetime


def calendars(policies: Policies, moment: Moment) -> dict[str, Calendar]:
    """A calendar for each category: its window begins where its grace ends. One for all batches of a plan."""
    windows = {name: Window(moment.now - policy.grace, moment.horizon_end) for name, policy in policies.items()}
    shared = {window: Calendar(window) for window in windows.values()}
    return {name: shared[window] for name, window in windows.items()}


class PlannedMove(NamedTuple):
    """A row whose occurrence now means another instant; `was` is the one it stands at."""

    row_id: Any
    was: datetime
    placement: Placement


@dataclass
class Changes:
    """What a plan means to do with a batch. `reminder_keys` are all reminders of its users that exist."""

    inserts: list[Document] = field(default_factory=list)
    moves: list[PlannedMove] = field(default_factory=list)
    renames: list[tuple[Any, str, str]] = field(default_factory=list)
    deletes: dict[DeletedReason, list[Any]] = field(default_factory=lambda: defaultdict(list))
    reminder_keys: set[Hashable] = field(default_factory=set)
    already: int = 0
    skipped: Counter[SkipReason] = field(default_factory=Counter)


class Device(NamedTuple):
    """An active token, with its device's and its own id as dictionary keys."""

    token: Token
    key: Hashable
    token_key: Hashable


def occurrence_key(row: Mapping[str, Any]) -> OccurrenceKey:
    """The occurrence key of a row: reminder, device, local date, local time."""
    return (id_key(row["reminderId"]), id_key(row["deviceId"]), row.get("localDate"), row.get("localTime"))


class BatchPlan:
    """Works out the changes for one batch."""

    def __init__(
        self, policies: Policies, calendars: Mapping[str, Calendar], moment: Moment, complain: Complain
    ) -> None:
        self._policies, self._moment, self._complain = policies, moment, complain
        self._calendars = calendars
        self._changes = Changes()

    def work_out(self, batch: Batch) -> Changes:
        """The changes that make the batch's future what its users now want."""
        reminders = _by(batch.reminders, "userId")
        tokens = _by(batch.tokens, "userId")
        self._changes.reminder_keys.update(id_key(document["_id"]) for document in batch.reminders)
        known: dict[Hashable, dict[OccurrenceKey, Document]] = defaultdict(dict)
        for row in batch.known:
            known[id_key(row["reminderId"])][occurrence_key(row)] = row
        for document in batch.users:
            mine = reminders.get(id_key(document["_id"]), [])
            user = self._user(document)
            if user is None:
                continue
            self._plan_user(user, mine, self._tokens(tokens.get(id_key(user.id), [])), known)
        return self._changes

    def _skip(self, reason: SkipReason, count: int = 1) -> None:
        self._changes.skipped[reason] += count

    def _refuse(self, collection: str, document: Document, error: BadDocument) -> None:
        self._skip(error.reason)
        self._complain(collection, document.get("_id"), error.reason, str(error))

    def _user(self, document: Document) -> User | None:
        try:
            return parse_user(document)
        except BadDocument as error:
            self._refuse("users", document, error)
            return None

    def _tokens(self, documents: Iterable[Document]) -> list[Token]:
        tokens = []
        for document in documents:
            try:
                tokens.append(parse_token(document))
            except BadDocument as error:
                self._refuse("notification_tokens", document, error)
        return tokens

    def _reminder(self, document: Document, user: User) -> Reminder | None:
        try:
            reminder = parse_reminder(document, user.zone)
        except BadDocument as error:
            self._refuse("reminders", document, error)
            return None
        if reminder.category not in self._policies:
            detail = f"category: {reminder.category[:40]!r} is not one of the settings' CATEGORIES"
            self._refuse("reminders", document, BadDocument(SkipReason.UNKNOWN_CATEGORY, detail))
            return None
        if reminder.is_live:
            for detail in reminder.bad_times:
                self._refuse("reminders", document, BadDocument(SkipReason.BAD_LOCAL_TIME, detail))
        return reminder

    def _plan_user(
        self,
        user: User,
        documents: list[Document],
        tokens: list[Token],
        known: Mapping[Hashable, dict[OccurrenceKey, Document]],
    ) -> None:
        if documents and not user.is_active:
            self._skip(SkipReason.USER_INACTIVE)
        instants: set[Hashable] = set()
        devices = [Device(token, id_key(token.device_id), id_key(token.id)) for token in tokens]
        for document in documents:
            reminder = self._reminder(document, user)
            if reminder is None:
                continue
            existing = known.get(id_key(reminder.id), {})
            if self._is_wanted(user, reminder, tokens):
                self._plan_reminder(user, reminder, devices, existing, instants)
            self._judge_leftovers(user, reminder, existing)

    def _is_wanted(self, user: User, reminder: Reminder, tokens: list[Token]) -> bool:
        if not user.is_active or not reminder.is_live:
            return False
        if not user.wants(reminder.category):
            self._skip(SkipReason.OPTED_OUT)
            return False
        if not tokens:
            self._skip(SkipReason.NO_ACTIVE_TOKEN)
            return False
        return True

    def _plan_reminder(
        self,
        user: User,
        reminder: Reminder,
        devices: Sequence[Device],
        existing: dict[OccurrenceKey, Document],
        instants: set[Hashable],
    ) -> None:
        policy = self._policies[reminder.category]
        reminder_key = id_key(reminder.id)
        content: Content | None = None
        for occurrence in occurrences(user, reminder, self._calendars[reminder.category], policy):
            if occurrence.refused:
                self._skip(SkipReason.OUTSIDE_ALLOWED_HOURS)
                continue
            for device in devices:
                key = (reminder_key, device.key, occurrence.local_date, occurrence.local_time)
                row = existing.pop(key, None)
                if row is None and not _is_news(reminder, device.token, occurrence.scheduled_at):
                    continue
                pending_key = (device.token_key, reminder.category, reminder.label, occurrence.scheduled_at)
                if pending_key in instants:
                    self._skip(SkipReason.SAME_INSTANT)
                    continue
                instants.add(pending_key)
                if row is not None:
                    self._keep(reminder, Placement(occurrence.scheduled_at, user.timezone, device.token.id), row)
                    continue
                if content is None:
                    content = render(reminder.title, reminder.body, reminder.data, user.locale)
                    if content is None:
                        self._nothing_to_say(reminder)
                        return
                subject = Subject(user, reminder, content)
                self._changes.inserts.append(new_row(subject, device.token, occurrence, self._moment.started))

    def _nothing_to_say(self, reminder: Reminder) -> None:
        detail = "title and body: no text for this user, or data that is no JSON object"
        self._skip(SkipReason.BAD_DOCUMENT)
        self._complain("reminders", reminder.id, SkipReason.BAD_DOCUMENT, detail)

    def _keep(self, reminder: Reminder, placement: Placement, row: Document) -> None:
        if row["status"] == Status.PENDING:
            self._rename(reminder, row)
            if row["scheduledAt"] != placement.scheduled_at:
                self._changes.moves.append(PlannedMove(row["_id"], row["scheduledAt"], placement))
                return
        self._changes.already += 1

    def _rename(self, reminder: Reminder, row: Document) -> None:
        if (row.get("category"), row.get("label")) != (reminder.category, reminder.label):
            self._changes.renames.append((row["_id"], reminder.category, reminder.label))

    def _judge_leftovers(self, user: User, reminder: Reminder, existing: dict[OccurrenceKey, Document]) -> None:
        """Rows that exist and that this plan did not ask for: some lie outside its window, others must go."""
        for row in existing.values():
            if row["status"] != Status.PENDING:
                continue
            verdict = self._leftover(user, reminder, row)
            if not isinstance(verdict, DeletedReason):
                self._rename(reminder, row)
            if isinstance(verdict, DeletedReason):
                self._changes.deletes[verdict].append(row["_id"])
            elif verdict is not None:
                self._changes.moves.append(PlannedMove(row["_id"], row["scheduledAt"], verdict))

    def _leftover(self, user: User, reminder: Reminder, row: Document) -> DeletedReason | Placement | None:
        if not user.is_active or not user.wants(reminder.category):
            return DeletedReason.PREFERENCE_CHANGED
        instant = occurrence_of(user, reminder, row["localDate"], row["localTime"]) if reminder.is_live else None
        if instant is None:
            return DeletedReason.REMINDER_CHANGED
        if not allowed_at(instant, user, self._policies[reminder.category]):
            return DeletedReason.PREFERENCE_CHANGED
        if instant == row["scheduledAt"] or instant <= self._moment.now:
            return None
        return Placement(instant, user.timezone, row["notificationTokenId"])


def _is_news(reminder: Reminder, token: Token, instant: datetime) -> bool:
    """Nothing is new for an instant before its reminder was written or its device registered; what exists stays."""
    written, registered = reminder.not_before, token.created_at
    return (written is None or instant >= written) and (registered is None or instant >= registered)


def _by(documents: Iterable[Document], name: str) -> dict[Hashable, list[Document]]:
    groups: dict[Hashable, list[Document]] = defaultdict(list)
    for document in documents:
        groups[id_key(document.get(name))].append(document)
    return groups
