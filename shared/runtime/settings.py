"""Every setting, read from `PUNKTLIG_…` environment variables and checked before anything starts."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from shared.domain.policy import CategoryPolicy

PREFIX = "PUNKTLIG_"
# A year: what lies further ahead will be edited before it is due.
LONGEST_HORIZON_HOURS = 8_784
# A mark is refused unless the claim covers the request's time-out and this much more.
MARK_MARGIN_SECONDS = 5


class BadSettings(ValueError):
    """A setting that stops the start; the text is one line that names the variable."""


@dataclass(frozen=True)
class BrokerAddress:
    """One broker of the fail-over list."""

    host: str
    port: int
    tls: bool


class PolicySetting(BaseModel):
    """One category's entry in CATEGORY_POLICY."""

    model_config = ConfigDict(extra="forbid")

    grace_seconds: float | None = Field(default=None, gt=0, le=315_360_000, allow_inf_nan=False)
    on_unknown: Literal["resend_once", "give_up"] = "resend_once"
    ignore_allowed_hours: bool = False
    priority: Literal["default", "normal", "high"] | None = None
    interruption_level: Literal["active", "critical", "passive", "time-sensitive"] | None = None
    channel_id: str | None = None
    sound: str | None = "default"


# Safety messages are for emergencies: they ignore quiet hours and break through focus modes.
_SAFETY = PolicySetting(ignore_allowed_hours=True, priority="high", interruption_level="time-sensitive")

# Ten years: more than any duration here can mean, and little enough for every clock and time-out.
_LONGEST = 315_360_000
Positive = Annotated[float, Field(gt=0, le=_LONGEST, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseSettings):
    """The settings of all processes. Durations are in seconds; `.env.example` explains each."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)

    mongo_url: SecretStr
    mongo_db: str = Field(default="punktlig", pattern=r"^[A-Za-z0-9_-]{1,63}$")
    stomp_urls: str = "stomp://127.0.0.1:61613"
    stomp_login: str = ""
    stomp_passcode: SecretStr = SecretStr("")
    stomp_ca_file: str | None = None
    expo_url: str = "https://exp.host"
    expo_access_token: SecretStr = SecretStr("")

    categories: Annotated[tuple[str, ...], NoDecode] = ("meal", "mood", "activity", "safety", "reminder")
    category_policy: dict[str, PolicySetting] = Field(default_factory=lambda: {"safety": _SAFETY})
    batch_size: Annotated[int, Field(ge=1, le=100)] = 100
    horizon_hours: Annotated[float, Field(gt=0, le=LONGEST_HORIZON_HOURS)] = 24
    grace_seconds: Positive = 1800
    claim_seconds: Positive = 60
    max_attempts: Count = 5
    failure_ceiling: Count = 3
    backstop_seconds: Positive = 300
    broker_window_seconds: Positive = 7200
    receipt_delay_seconds: Positive = 900
    receipt_give_up_seconds: Positive = 86400
    expo_rate_per_second: Positive = 600
    expo_connections: Count = 6
    expo_timeout_seconds: Positive | None = None
    drain_seconds: Positive = 25
    mass_retire_share: Annotated[float, Field(gt=0, le=1)] = 0.5
    mass_retire_minimum: Count = 20
    retention_days: Annotated[int, Field(ge=1, le=36_500)] = 90
    http_port: Annotated[int, Field(ge=0, le=65535)] = 0
    log_format: Literal["auto", "json", "text"] = "auto"

    @field_validator("categories", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("categories")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name.replace("_", "").replace("-", "").isalnum() or not name.isascii():
                raise ValueError(f"{name!r} cannot be part of a queue name; use letters, digits, - and _")
        if len(set(value)) != len(value):
            raise ValueError("a category stands there twice")
        return value

    @field_validator("mongo_url")
    @classmethod
    def _mongo(cls, value: SecretStr) -> SecretStr:
        if not value.get_secret_value().startswith(("mongodb://", "mongodb+srv://")):
            raise ValueError("must begin with mongodb:// or mongodb+srv://")
        return value

    @field_validator("stomp_urls")
    @classmethod
    def _stomp(cls, value: str) -> str:
        parse_broker_addresses(value)
        return value

    @field_validator("expo_url")
    @classmethod
    def _expo(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path.strip("/"):
            raise ValueError("must be an origin like https://exp.host, without a path")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in self.category_policy:
            if name not in self.categories and "category_policy" in self.model_fields_set:
                raise ValueError(f"{PREFIX}CATEGORY_POLICY: {name!r} is not one of {PREFIX}CATEGORIES")
        longest_grace = max(policy.grace for policy in self.policies.values())
        if timedelta(days=self.retention_days) < longest_grace + timedelta(days=1):
            raise ValueError(
                f"{PREFIX}RETENTION_DAYS: {self.retention_days} days are less than the longest grace and a day; "
                f"a purged reminder could be planned again"
            )
        if self.claim_seconds < self.request_timeout + MARK_MARGIN_SECONDS + 1:
            raise ValueError(
                f"{PREFIX}CLAIM_SECONDS: a claim of {self.claim_seconds:g} s does not cover a request; "
                f"it must be at least {PREFIX}EXPO_TIMEOUT_SECONDS + {MARK_MARGIN_SECONDS + 1}"
            )
        return self

    @property
    def request_timeout(self) -> float:
        """The total time-out of one request to Expo, in seconds: by default as long as a claim can cover, up to 30."""
        if self.expo_timeout_seconds is not None:
            return self.expo_timeout_seconds
        return max(1.0, min(30.0, 0.8 * (self.claim_seconds - MARK_MARGIN_SECONDS - 1)))

    @cached_property
    def brokers(self) -> tuple[BrokerAddress, ...]:
        """The fail-over list, in order."""
        return parse_broker_addresses(self.stomp_urls)

    @cached_property
    def policies(self) -> Mapping[str, CategoryPolicy]:
        """The policy of every category, defaults filled in."""
        return {name: self._policy(self.category_policy.get(name, PolicySetting())) for name in self.categories}

    def _policy(self, setting: PolicySetting) -> CategoryPolicy:
        grace = setting.grace_seconds or self.grace_seconds
        return CategoryPolicy(timedelta(seconds=grace), **setting.model_dump(exclude={"grace_seconds"}))

    @property
    def resend_pause(self) -> timedelta:
        """How long after an attempt of unknown outcome its row may be sent again at the earliest: 30 s, or a lease."""
        return timedelta(seconds=min(30.0, self.claim_seconds))

    @property
    def broker_window(self) -> timedelta:
        """How far ahead rows are put on the broker."""
        return timedelta(seconds=self.broker_window_seconds)


def parse_broker_addresses(value: str) -> tuple[BrokerAddress, ...]:
    """The addresses in a comma-separated list of `stomp://host:port` and `stomp+ssl://host:port`."""
    addresses = []
    for part in value.split(","):
        url = urlsplit(part.strip())
        if url.scheme not in {"stomp", "stomp+ssl"} or not url.hostname:
            raise ValueError("must be a comma-separated list of stomp://host:port or stomp+ssl://host:port")
        if url.username or url.password:
            raise ValueError("holds credentials; use STOMP_LOGIN and STOMP_PASSCODE")
        tls = url.scheme == "stomp+ssl"
        addresses.append(BrokerAddress(url.hostname, url.port or (61614 if tls else 61613), tls))
    return tuple(addresses)


def load_settings() -> Settings:
    """The settings of this process.

    Raises:
        BadSettings: one line that names the first wrong variable, or an unknown one with a suggestion.

    """
    known = [PREFIX + name.upper() for name in Settings.model_fields]
    for variable in sorted(name for name in os.environ if name.upper().startswith(PREFIX)):
        if variable.upper() not in known:
            names = [name.removeprefix(PREFIX) for name in known]
            near = difflib.get_close_matches(variable.upper().removeprefix(PREFIX), names, n=1, cutoff=0.5)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else ""
            raise BadSettings(f"{variable}: no such setting{hint}")
    try:
        return Settings()
    except ValidationError as error:
        raise BadSettings(_one_line(error)) from None
    except SettingsError as error:
        raise BadSettings(f"{PREFIX}CATEGORY_POLICY: not JSON ({error.__cause__})") from None


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    message = "must be set" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    name, *inner = (str(part) for part in first["loc"])
    where = "".join(f".{part}" for part in inner)
    return f"{PREFIX}{name.upper()}{where}: {message[0].lower()}{message[1:]}"
