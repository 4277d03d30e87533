"""What a notification says: the text of the user's language, cut to what a payload may weigh.

Sizes are bytes of UTF-8. Text is only ever cut between graphemes, what a reader takes for one character: a
family emoji, a flag, a letter with its accents, a Hangul syllable in parts.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from types import MappingProxyType
from typing import Any, Final

import regex  # type: ignore[import-untyped] # it comes without annotations

from shared.domain.locales import fallbacks, normal

_ELLIPSIS: Final = "…"
_DEFAULT: Final = "default"
# BSON nests 100 levels deep; what is deeper came from nowhere we know.
_DEEPEST: Final = 100
_GRAPHEME: Final = r"\X"
# Openers of directional runs, each with what closes it; text left open would turn round what follows it.
_END_ISOLATE: Final = "\u2069"
_END_EMBEDDING: Final = "\u202c"
_CLOSED_BY: Final = MappingProxyType(
    dict.fromkeys("\u2066\u2067\u2068", _END_ISOLATE) | dict.fromkeys("\u202a\u202b\u202d\u202e", _END_EMBEDDING),
)
_MARK_BYTES: Final = 3
# The end of a paragraph closes every run by itself.
_END_PARAGRAPH: Final = "\n\r\x1c\x1d\x1e\x85\u2029"


@dataclass(frozen=True, slots=True)
class Content:
    """Title, body and deep link of one notification: no lone surrogates, ``data`` is a JSON object."""

    title: str
    body: str
    data: Mapping[str, Any]


class _NotJson(ValueError):
    """A value that JSON has no form for."""


def payload_bytes(value: object) -> int:
    """Return the size of a JSON value in bytes of UTF-8, written as compactly as JSON allows.

    Raises:
        ValueError: NaN, infinity or a lone surrogate within.
        TypeError: something that JSON has no form for.

    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return len(text.encode())


def pick_text(value: object, locale: str | None) -> str | None:
    """Return the text for a locale: a string as it is, else the best of ``{locale: text}``.

    Tried in turn: the locale, the same with ever fewer subtags (``zh-Hant-TW``, ``zh-Hant``, ``zh``), then
    ``default``. Case and ``_`` for ``-`` do not matter. Blank texts and values that are no text are passed
    over; ``None`` if nothing is left.
    """
    if isinstance(value, str):
        return _usable(value)
    if not isinstance(value, Mapping):
        return None
    texts = {normal(key): text for key, text in value.items() if isinstance(key, str)}
    for name in (*fallbacks(locale), _DEFAULT) if isinstance(locale, str) else (_DEFAULT,):
        text = _usable(texts.get(name))
        if text is not None:
            return text
    return None


def cut(text: str, max_bytes: int) -> str:
    """Return the text in at most ``max_bytes`` of UTF-8, ending in an ellipsis if something had to go.

    Cuts between graphemes and closes directional isolates and embeddings that the cut left open. Lone
    surrogates become U+FFFD. Where not even the ellipsis has room, as many graphemes as fit stand alone.
    """
    return _cut(_encodable(text), max_bytes, _utf8_bytes)


def render(title: object, body: object, data: object, locale: str | None) -> Content | None:
    """Return what a reminder says in a locale.

    Texts are picked by :func:`pick_text`; one of the two may be missing and is then empty. ``data`` is a JSON
    object, or ``None`` for an empty one. Within it dates become ISO 8601 strings (a naive one is UTC, as
    MongoDB gives it), other scalars that JSON has no form for, such as an ObjectId, their ``str()``. ``None``
    if there is no text at all, or if ``data`` is no object or holds NaN, bytes or keys that are no strings.
    """
    heading, text = pick_text(title, locale), pick_text(body, locale)
    if heading is None and text is None:
        return None
    if data is not None and not isinstance(data, Mapping):
        return None
    try:
        link = _json_object(data or {}, _DEEPEST)
    except _NotJson:
        return None
    return Content(_encodable(heading or ""), _encodable(text or ""), link)


def fit(content: Content, budget_bytes: int) -> Content | None:
    """Return the content with ``title``, ``body`` and ``data`` together within a number of JSON bytes.

    The body is shortened first, then the title. ``data`` is whole or nothing, for half a deep link leads
    nowhere: ``None`` if there is no room for it and two empty strings.

    Raises:
        ValueError, TypeError: as :func:`payload_bytes`, for data that :func:`render` has not seen.

    """
    texts = budget_bytes - payload_bytes(content.data)
    quotes = payload_bytes("")
    if texts < 2 * quotes:
        return None
    title, body = _encodable(content.title), _encodable(content.body)
    body = _cut(body, texts - payload_bytes(title) - quotes, _json_bytes)
    title = _cut(title, texts - payload_bytes(body) - quotes, _json_bytes)
    return replace(content, title=title, body=body)


def _usable(text: object) -> str | None:
    return text if isinstance(text, str) and text.strip() else None


def _encodable(text: str) -> str:
    """Return the text with surrogate pairs joined to the character they mean and lone ones replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _utf8_bytes(text: str) -> int:
    return len(text.encode())


def _json_bytes(text: str) -> int:
    """Return what a text adds to a JSON string: escapes of quotes and control characters included."""
    return payload_bytes(text) - 2


def _cut(text: str, limit: int, size: Callable[[str], int]) -> str:
    """Return the text or its longest beginning within the limit, ellipsis and closing marks included."""
    if size(text) <= limit:
        return text
    ending = _ELLIPSIS if size(_ELLIPSIS) <= limit else ""
    kept, closing = _beginning(text, limit - size(ending), size)
    return kept + ending + closing


def _beginning(text: str, room: int, size: Callable[[str], int]) -> tuple[str, str]:
    """Return the whole graphemes that have room, and the marks that close what they leave open."""
    used, end, closing = 0, 0, ""
    still_open: list[str] = []
    # No character is smaller than a byte, and one more tells whether the last grapheme ends there.
    for grapheme in regex.finditer(_GRAPHEME, text[: max(room, 0) + 1]):
        used += size(grapheme[0])
        if used > room:
            break
        for character in grapheme[0]:
            _follow(character, still_open)
        # Never after white space: it would stand before the ellipsis.
        if not grapheme[0].isspace() and used + _MARK_BYTES * len(still_open) <= room:
            end, closing = grapheme.end(), "".join(reversed(still_open))
    return text[:end], closing


def _follow(character: str, still_open: list[str]) -> None:
    """Keep the list of marks that would close the directional runs open at this point of the text."""
    if character in _CLOSED_BY:
        still_open.append(_CLOSED_BY[character])
    elif character == _END_ISOLATE and character in still_open:
        while still_open.pop() != _END_ISOLATE:  # ends the embeddings within it too
            pass
    elif character == _END_EMBEDDING and still_open[-1:] == [_END_EMBEDDING]:
        still_open.pop()
    elif character in _END_PARAGRAPH:
        still_open.clear()


def _json_object(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise _NotJson("a key is no string")
    return {_encodable(str(key)): _json(item, depth - 1) for key, item in value.items()}


def _json(value: object, depth: int) -> Any:
    """Return a copy that consists of JSON's own types alone."""
    if depth < 0:
        raise _NotJson("nested too deep")
    if isinstance(value, Mapping):
        return _json_object(value, depth)
    if isinstance(value, list | tuple):
        return [_json(item, depth - 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview | set | frozenset):
        raise _NotJson(f"no JSON form for {type(value).__name__}")
    return _json_scalar(value)


def _json_scalar(value: object) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)  # drivers have subclasses of their own
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _NotJson("no number")
        return float(value)
    if isinstance(value, datetime):
        instant = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return instant.isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    return _encodable(str(value))
