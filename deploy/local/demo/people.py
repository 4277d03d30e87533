"""The people of the demonstration: what each owns, does, and must get."""

from datetime import datetime, timedelta
from typing import Any

from deploy.local.demo.cities import City
from deploy.local.demo.roles import CAST, CATEGORIES, Role
from deploy.local.demo.scenario import Document, Edit, Expectation, Fate, Scenario
from shared.domain.token_moves import Registration

PEOPLE_PER_CITY = 8
# Coprime to the number of cities and of categories, so that what is special is spread over both.
_STRIDE = 7
_SECOND_PHONE_EVERY = 23
BAD_TOKEN = "abc"  # noqa: S105 - no token at all, that is the point


def build_scenario(due: datetime, cities: list[City]) -> Scenario:
    """People for all `cities`, with one reminder each at `due` (aware UTC, a whole minute) on their own clock."""
    scenario = Scenario(due)
    number_of_people = PEOPLE_PER_CITY * len(cities)
    roles = dict.fromkeys(range(number_of_people), Role.PLAIN)
    special = [role for role, count in CAST for _ in range(count)]
    roles.update({(3 + _STRIDE * index) % number_of_people: role for index, role in enumerate(special)})
    for number, role in roles.items():
        _Person(scenario, number, cities[number % len(cities)], role).move_in()
    return scenario


class _Person:
    """Adds one person to a scenario."""

    def __init__(self, scenario: Scenario, number: int, city: City, role: Role) -> None:
        self._scenario, self._number, self._city, self._role = scenario, number, city, role
        self._user_id, self._reminder_id = f"user-{number:03}", f"reminder-{number:03}"
        self._phone = f"phone-{number:03}"
        self._token = f"ExponentPushToken[{self._phone}]"
        category = CATEGORIES[number % len(CATEGORIES)]
        # Safety messages ignore allowed hours, so whoever relies on theirs waits for something else.
        ignores_hours = category == "safety" and role in {Role.NARROWS, Role.ASLEEP}
        self._category = "mood" if ignores_hours else category

    def move_in(self) -> None:
        """Write the documents, the later deeds and the expectations of this person."""
        scenario = self._scenario
        scenario.cast[self._role] += 1
        zone = "Mars/Base" if self._role is Role.BAD_ZONE else self._city.zone_name
        preferences = {"allowedHours": self._other_hours()} if self._role is Role.ASLEEP else {}
        scenario.users.append({"_id": self._user_id, "timezone": zone, "locale": "en", "preferences": preferences})
        self._remind(self._reminder_id, self._category, self._clock)
        self._own(self._phone, self._token)
        self._play()

    @property
    def _clock(self) -> str:
        return self._city.clock(self._scenario.due)

    def _play(self) -> None:
        match self._role:
            case Role.PLAIN:
                self._wait()
            case Role.OPTS_OUT | Role.LEAVES | Role.CANCELS | Role.NARROWS:
                self._change_mind()
            case Role.LOGS_IN_ANEW | Role.HANDS_OVER:
                self._log_in()
            case Role.UNREGISTERED | Role.GONE:
                self._lose_phone()
            case Role.ASLEEP:
                self._expect(Fate.SKIPPED, "outside_allowed_hours")
            case Role.BAD_ZONE:
                self._expect(Fate.SKIPPED, "bad_timezone")
            case Role.BAD_TIME | Role.BAD_CATEGORY | Role.BAD_TOKEN:
                self._add_nonsense()

    def _wait(self) -> None:
        self._expect(Fate.ARRIVES)
        self._scenario.sabotaged_token = self._scenario.sabotaged_token or self._token
        if self._number % _SECOND_PHONE_EVERY == 0:
            self._add_second_phone()

    def _change_mind(self) -> None:
        """The app writes something after planning that the send stage must respect."""
        edits: dict[Role, tuple[str, Document]] = {
            Role.OPTS_OUT: ("opted_out", {f"preferences.categories.{self._category}": False}),
            Role.LEAVES: ("user_inactive", {"isActive": False}),
            Role.CANCELS: ("reminder_cancelled", {"isDeleted": True}),
            Role.NARROWS: ("outside_allowed_hours", {"preferences.allowedHours": self._other_hours()}),
        }
        reason, fields = edits[self._role]
        if self._role is Role.CANCELS:
            self._later(Edit("reminders", self._reminder_id, fields))
        else:
            self._later(Edit("users", self._user_id, fields))
        self._expect(Fate.MISSED, reason)

    def _remind(self, reminder_id: str, category: str, clock: str) -> None:
        label, title = _words(category, self._clock)
        label = label if reminder_id == self._reminder_id else f"{label} 2"
        written = self._scenario.due - timedelta(hours=6)
        self._scenario.reminders.append(
            {
                "_id": reminder_id,
                "userId": self._user_id,
                "category": category,
                "label": label,
                "localTimes": [clock],
                "title": title,
                "body": {"default": f"It is {clock} in {self._city.name}."},
                "createdAt": written,
            }
        )

    def _own(self, device_id: str, token: str, platform: str = "ios") -> None:
        seen = self._scenario.due - timedelta(hours=6)
        self._scenario.tokens.append(
            {
                "_id": f"token-of-{device_id}",
                "userId": self._user_id,
                "deviceId": device_id,
                "token": token,
                "platform": platform,
                "isActive": True,
                "failureCount": 0,
                "createdAt": seen,
                "lastSeenAt": seen,
            }
        )

    def _expect(self, fate: Fate, reason: str = "", **other: Any) -> None:
        _, title = _words(self._category, self._clock)
        known = {"reminder_id": self._reminder_id, "device_id": self._phone, "token": self._token, "title": title}
        expectation = Expectation(**{**known, **other}, city=self._city.name, fate=fate, reason=reason)
        self._scenario.expectations.append(expectation)

    def _later(self, deed: Edit | Registration) -> None:
        self._scenario.after_planning.setdefault(self._role, []).append(deed)

    def _log_in(self) -> None:
        """The phone registers again after planning: for its owner under a new token, or for somebody else."""
        if self._role is Role.HANDS_OVER:
            guest = f"guest-{self._number:03}"
            self._scenario.users.append({"_id": guest, "timezone": self._city.zone_name})
            self._later(Registration(guest, self._phone, self._token, "ios"))
            self._expect(Fate.MISSED, "superseded")
        else:
            fresh = f"ExponentPushToken[{self._phone}-anew]"
            self._later(Registration(self._user_id, self._phone, fresh, "ios"))
            self._expect(Fate.ARRIVES, token=fresh, former_tokens=(self._token,))
        self._scenario.retired[f"token-of-{self._phone}"] = "replaced"

    def _lose_phone(self) -> None:
        state = "unregistered" if self._role is Role.UNREGISTERED else "gone"
        self._scenario.phones[self._token] = {"state": state}
        self._scenario.retired[f"token-of-{self._phone}"] = "device_not_registered"
        self._expect(Fate.FAILED, "device_not_registered")

    def _add_second_phone(self) -> None:
        tablet = f"tablet-{self._number:03}"
        token = f"ExponentPushToken[{tablet}]"
        self._own(tablet, token, "android")
        self._scenario.phones[token] = {"platform": "android"}
        self._expect(Fate.ARRIVES, device_id=tablet, token=token)

    def _add_nonsense(self) -> None:
        """Something that cannot be understood stands beside a good reminder, which must arrive all the same."""
        self._expect(Fate.ARRIVES)
        if self._role is Role.BAD_TOKEN:
            self._own(f"brick-{self._number:03}", BAD_TOKEN)
            self._expect(Fate.SKIPPED, "bad_token", device_id=f"brick-{self._number:03}", token=BAD_TOKEN)
            return
        is_time = self._role is Role.BAD_TIME
        reminder_id = f"{self._reminder_id}-bad"
        self._remind(reminder_id, self._category if is_time else "astrology", "25:61" if is_time else self._clock)
        reason = "bad_local_time" if is_time else "unknown_category"
        # No push may bear this title: what is sent of it shows as repeated or as a stray.
        self._expect(Fate.SKIPPED, reason, reminder_id=reminder_id, title="(none)")

    def _other_hours(self) -> Document:
        """Two hours of the day that begin an hour after the reminder's."""
        local = self._scenario.due.astimezone(self._city.zone)
        return {
            "start": (local + timedelta(hours=1)).strftime("%H:%M"),
            "end": (local + timedelta(hours=3)).strftime("%H:%M"),
        }


def _words(category: str, clock: str) -> tuple[str, str]:
    """Label and title: what suits the hour on the user's wall."""
    hour = int(clock[:2])
    meals = ((5, "snack"), (11, "breakfast"), (15, "lunch"), (17, "snack"), (22, "dinner"), (24, "snack"))
    meal = next(name for until, name in meals if hour < until)
    label, title = {
        "meal": (meal, f"Time for {meal}"),
        "mood": ("check-in", "How do you feel?"),
        "activity": ("stretch", "Stand up and stretch"),
        "safety": ("medicine", "Have you taken your medicine?"),
        "reminder": ("water", "Drink a glass of water"),
    }.get(category, (category, "The stars have news"))
    return label, title
