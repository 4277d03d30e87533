"""Registration of phones, for the app that embeds Punktlig: call it at every log-in and whenever the token changes."""

from typing import Any

from shared.adapters.mongo.tokens import TokenStore
from shared.domain.documents import is_expo_token
from shared.domain.token_moves import Registration

_PLATFORMS = frozenset({"ios", "android"})


class BadRegistration(ValueError):
    """A registration that cannot be stored; the text says what is wrong, without the token."""


def register(store: TokenStore, registration: Registration) -> Any:
    """Make the token the device's one active one, and retire every other on the device or under the same token.

    Rows already planned for the device follow to it if its user is the same; otherwise they end as superseded.

    Returns:
        The token document's id.

    Raises:
        BadRegistration: a token Expo would not know, no user, no device, or an unknown platform.
        DatabaseUnavailable: try again; nothing is known to have changed.

    """
    if not is_expo_token(registration.token):
        raise BadRegistration("token: not an Expo push token")
    if registration.user_id is None or registration.device_id in (None, ""):
        raise BadRegistration("user and device must be given")
    if registration.platform not in _PLATFORMS:
        raise BadRegistration(f"platform: must be one of {', '.join(sorted(_PLATFORMS))}")
    return store.register(registration)
