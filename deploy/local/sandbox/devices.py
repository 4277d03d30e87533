"""The phones behind the push tokens: what their owners see."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from deploy.local.sandbox.moments import Moment, iso

_TOKEN = re.compile(r"Expo(?:nent)?PushToken\[[^\[\]\s]+\]|[a-zA-Z\d]{8}-(?:[a-zA-Z\d]{4}-){3}[a-zA-Z\d]{12}", re.ASCII)
_DEFAULT_PROJECT = "@sandbox/default"


class Platform(StrEnum):
    """Which rule replaces a shown notification."""

    IOS = "ios"
    ANDROID = "android"


class State(StrEnum):
    """Whether pushes reach the phone, and when the sender hears that they do not."""

    ACTIVE = "active"
    GONE = "gone"
    """The app was removed: the ticket is ok, the receipt says DeviceNotRegistered."""
    UNREGISTERED = "unregistered"
    """Expo knows it already: the ticket says DeviceNotRegistered."""


class Arrival(StrEnum):
    """What became of one accepted push on the phone."""

    SHOWN = "shown"
    REPLACED = "replaced"
    EXPIRED = "expired"
    VANISHED = "vanished"


@dataclass(slots=True)
class Shown:
    """One notification on the screen; a replacement changes its content but keeps its place."""

    at: int
    last_at: int
    message_id: str | None
    title: str | None
    body: str | None
    replaced: int = 0


@dataclass(slots=True)
class Device:
    """A phone as its token names it."""

    platform: Platform = Platform.IOS
    state: State = State.ACTIVE
    project: str = _DEFAULT_PROJECT
    shown: list[Shown] = field(default_factory=list)
    arrivals: int = 0
    expired: int = 0


class DevicesError(ValueError):
    """A ``PUT /_devices`` that names no device state; nothing was changed."""


def is_push_token(token: str) -> bool:
    """Whether the text is ``ExponentPushToken[…]``, ``ExpoPushToken[…]`` or a UUID, as Expo's tokens are."""
    return _TOKEN.fullmatch(token) is not None


def project_in(token: str) -> str:
    """The project spelt after an ``@``: ``ExponentPushToken[abc@garden]`` is of ``@sandbox/garden``."""
    _, at, rest = token.partition("@")
    return f"@sandbox/{rest.rstrip(']')}" if at else _DEFAULT_PROJECT


class Devices:
    """All phones, made known by ``PUT /_devices`` or by their first push (then an active iOS phone)."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        # Keyed by a 64-bit hash of (token, collapse key): a third of the memory of one dict per device.
        self._replaceable: dict[int, Shown] = {}
        self._texts: dict[str, str] = {}

    def __getitem__(self, token: str) -> Device:
        device = self._devices.get(token)
        if device is None:
            device = self._devices[token] = Device(project=project_in(token))
        return device

    def project(self, token: str) -> str:
        """The project of a token, registered or not."""
        device = self._devices.get(token)
        return device.project if device else project_in(token)

    def receive(self, token: str, message: dict[str, Any], message_id: str | None, moment: Moment) -> Arrival:
        """Let one accepted push travel to its phone, and say what its owner saw of it."""
        device = self[token]
        if device.state is not State.ACTIVE:
            return Arrival.VANISHED
        if _is_expired(message, moment):
            device.expired += 1
            return Arrival.EXPIRED
        device.arrivals += 1
        key = message.get("tag" if device.platform is Platform.ANDROID else "collapseId")
        place = None if key is None else hash((token, key))
        standing = None if place is None else self._replaceable.get(place)
        at = moment.milliseconds
        title, body = self._interned(message.get("title")), self._interned(message.get("body"))
        if standing is not None:
            standing.last_at, standing.message_id, standing.title, standing.body = at, message_id, title, body
            standing.replaced += 1
            return Arrival.REPLACED
        shown = Shown(at, at, message_id, title, body)
        device.shown.append(shown)
        if place is not None:
            self._replaceable[place] = shown
        return Arrival.SHOWN

    def update(self, changes: object) -> None:
        """Apply ``{token: {"state"?, "platform"?, "project"?}}``; fields left out stay as they are.

        Raises DevicesError, with nothing changed, if any part is wrong.
        """
        checked = _checked(changes)
        for token, fields in checked.items():
            device = self[token]
            for name, value in fields.items():
                setattr(device, name, value)

    def clear(self) -> None:
        """Forget every phone."""
        self._devices.clear()
        self._replaceable.clear()
        self._texts.clear()

    def describe(self, tokens: list[str] | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Pairs of token and what ``GET /_devices`` shows of it, for all or for the given known tokens."""
        for token in list(self._devices) if tokens is None else tokens:
            if token in self._devices:
                yield token, _description(self._devices[token])

    def _interned(self, text: str | None) -> str | None:
        # Reminders repeat few texts; the cap keeps personal texts from being held twice for ever.
        if text is None or len(self._texts) > 10_000:  # noqa: PLR2004
            return text
        return self._texts.setdefault(text, text)


def _is_expired(message: dict[str, Any], moment: Moment) -> bool:
    # A ttl counts from now on and wins over an expiration, so a message that carries one is never late here.
    expiration = message.get("expiration")
    return message.get("ttl") is None and expiration is not None and expiration <= moment.wall


def _description(device: Device) -> dict[str, Any]:
    return {
        "platform": device.platform,
        "state": device.state,
        "project": device.project,
        "arrivals": device.arrivals,
        "expired": device.expired,
        "shown": [
            {
                "at": iso(shown.at),
                "lastAt": iso(shown.last_at),
                "messageId": shown.message_id,
                "title": shown.title,
                "body": shown.body,
                "replaced": shown.replaced,
            }
            for shown in device.shown
        ],
    }


def _checked(changes: object) -> dict[str, dict[str, Any]]:
    if not isinstance(changes, dict):
        raise DevicesError("the body must be an object of tokens")
    return {token: _checked_fields(token, fields) for token, fields in changes.items()}


def _checked_fields(token: str, fields: object) -> dict[str, Any]:
    if not is_push_token(token):
        raise DevicesError(f"{token!r} is not a push token")
    if not isinstance(fields, dict):
        raise DevicesError(f"{token}: must be an object")
    checked: dict[str, Any] = {}
    for name, value in fields.items():
        if name == "project" and isinstance(value, str) and value:
            checked[name] = value
        elif name == "state" and value in list(State):
            checked[name] = State(value)
        elif name == "platform" and value in list(Platform):
            checked[name] = Platform(value)
        else:
            raise DevicesError(f"{token}: {name} cannot be {value!r}")
    return checked
