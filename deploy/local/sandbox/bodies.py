"""From the bytes of a request body to its JSON."""

import json
import zlib
from typing import Any, NoReturn

from deploy.local.sandbox.messages import RequestError

MAX_BODY_BYTES = 8 * 1024 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class BodySizeError(ValueError):
    """More bytes, packed or unpacked, than any request within the limits has."""


def decode_body(raw: bytes, *, gzipped: bool) -> Any:
    """The JSON value of a body. Raises RequestError and BodySizeError.

    Stricter than Python's own parser where Expo's is: NaN and Infinity are no JSON, text is UTF-8.
    """
    text = _unpacked(raw) if gzipped else raw
    if len(text) > MAX_BODY_BYTES:
        raise BodySizeError
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as problem:
        raise RequestError("The request body is not valid JSON") from problem


def _unpacked(raw: bytes) -> bytes:
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    try:
        # The bound keeps a small body from unpacking to gigabytes.
        text = unpacking.decompress(raw, MAX_BODY_BYTES + 1)
    except zlib.error as problem:
        raise RequestError("The request body is not valid gzip") from problem
    if len(text) <= MAX_BODY_BYTES and not unpacking.eof:
        raise RequestError("The request body is not valid gzip")
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
