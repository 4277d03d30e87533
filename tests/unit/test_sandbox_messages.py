import gzip
import json

import pytest

from deploy.local.sandbox.bodies import MAX_BODY_BYTES, BodySizeError, decode_body
from deploy.local.sandbox.messages import RequestError, read_receipt_ids, read_submission

_TO = "ExponentPushToken[a]"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (None, '"value" must be one of [array, object]'),
        ("text", '"value" must be one of [array, object]'),
        ([{"to": _TO}, 3], '"[1]" must be of type object'),
        ([{}], '"[0].to" is required'),
        ({}, '"to" is required'),
        ({"to": None}, '"to" must be one of [string, array]'),
        ([{"to": []}], '"[0].to" must contain at least 1 items'),
        ([{"to": [_TO, 7]}], '"[0].to[1]" must be a string'),
        ([{"to": _TO, "data": "text"}], '"[0].data" must be of type object'),
        ([{"to": _TO, "data": None}], '"[0].data" must be of type object'),
        ([{"to": _TO, "data": [1]}], '"[0].data" must be of type object'),
        ({"to": _TO, "data": 1}, '"data" must be of type object'),
        ([{"to": _TO}, {"to": _TO, "title": 1}], '"[1].title" must be a string'),
        ([{"to": _TO, "priority": "urgent"}], '"[0].priority" must be one of [default, normal, high]'),
        ([{"to": _TO, "interruptionLevel": "loud"}], '"[0].interruptionLevel" must be one of'),
        ([{"to": _TO, "badge": 1.5}], '"[0].badge" must be an integer'),
        ([{"to": _TO, "badge": True}], '"[0].badge" must be a number'),
        ([{"to": _TO, "expiration": "2026"}], '"[0].expiration" must be a number'),
        ([{"to": _TO, "ttl": -1}], '"[0].ttl" must be greater than or equal to 0'),
        ([{"to": _TO, "sound": 5}], '"[0].sound" must be one of'),
        ([{"to": _TO, "mutableContent": 1}], '"[0].mutableContent" must be a boolean'),
        ([{"to": _TO, "collapseId": "é" * 33}], '"[0].collapseId" must be at most 64 bytes'),
        ([{"to": _TO, "richContent": {"image": 1}}], '"[0].richContent" must have a string'),
    ],
)
def test_the_first_wrong_path_is_named(body, complaint):
    with pytest.raises(RequestError) as caught:
        read_submission(body)

    assert str(caught.value).startswith(complaint)


def test_a_message_with_every_field_passes():
    texts = dict.fromkeys(("title", "subtitle", "body", "channelId", "icon", "categoryId", "threadId", "tag"), "x")
    numbers = {"ttl": 5, "expiration": 1_780_000_000, "badge": 0}
    flags = dict.fromkeys(("mutableContent", "contentAvailable", "_displayInForeground"), True)
    others = {
        "to": [_TO, "ExpoPushToken[b]"],
        "data": {"messageId": "m"},
        "priority": "high",
        "interruptionLevel": "time-sensitive",
        "sound": None,
        "richContent": {"image": "https://example.org/a.png"},
        "collapseId": "c" * 64,
    }

    submission = read_submission(texts | numbers | flags | others)

    assert submission.single
    assert submission.recipients == [_TO, "ExpoPushToken[b]"]
    assert submission.messages[0].message_id == "m"


def test_the_size_is_counted_in_bytes_of_utf8_without_the_recipient():
    (message,) = read_submission([{"to": _TO, "body": "é"}]).messages
    (lone,) = read_submission([{"to": _TO, "body": "\ud800"}]).messages

    assert message.size == len('{"body":"é"}'.encode())
    assert lone.size == message.size + 1


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ([], '"value" must be of type object'),
        ({}, '"ids" is required'),
        ({"ids": "x"}, '"ids" must be an array'),
        ({"ids": ["x", None]}, '"ids[1]" must be a string'),
    ],
)
def test_receipt_ids_are_checked(body, complaint):
    with pytest.raises(RequestError, match=r".") as caught:
        read_receipt_ids(body)

    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("raw", "gzipped"),
    [
        (b'{"data": NaN}', False),
        (b"[Infinity]", False),
        (b"{", False),
        (b"", False),
        (b'"\xff"', False),
        (b"[" * 200_000, False),
        (b"[" + b"9" * 5000 + b"]", False),
        (b"[]", True),
        (gzip.compress(b"[]", mtime=0)[:-4], True),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_json_is_refused(raw, gzipped):
    with pytest.raises(RequestError):
        decode_body(raw, gzipped=gzipped)


def test_gzip_is_unpacked_within_bounds():
    assert decode_body(gzip.compress(json.dumps(["é"]).encode()), gzipped=True) == ["é"]
    with pytest.raises(BodySizeError):
        decode_body(gzip.compress(b" " * (MAX_BODY_BYTES + 1)), gzipped=True)
    with pytest.raises(BodySizeError):
        decode_body(b" " * (MAX_BODY_BYTES + 1), gzipped=False)
