import json
import time
import unicodedata
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.domain.content import Content, cut, fit, payload_bytes, pick_text, render
from shared.domain.locales import fallbacks, normal

FAMILY = "👨‍👩‍👧‍👦"
FLAG = "🇩🇰"
THUMB = "👍🏽"
ZALGO = "e" + "\u0301\u0323\u0308" * 10
HANGUL = "\u1112\u1161\u11ab"  # one syllable in three parts
DEVANAGARI = "क्षि"
HEBREW = "שלום עולם"
PLANE = "\U0001f6eb"
properly = settings(derandomize=True, deadline=None, max_examples=300)


def size(text: str) -> int:
    return len(text.encode())


def graphemes(text: str) -> list[str]:
    return regex.findall(r"\X", text)


# Which text.


@pytest.mark.parametrize(
    ("locale", "expected"),
    [
        ("de", "Frühstück"),
        ("de-AT", "Jause"),
        ("DE_at", "Jause"),
        ("de-at.UTF-8", "Jause"),
        ("de_AT@euro", "Jause"),
        ("de-CH", "Frühstück"),
        ("de-AT-u-ca-gregory", "Jause"),
        ("de-x-dialect", "Frühstück"),
        ("pt-BR", "café da manhã"),
        ("pt", "breakfast"),
        ("fr", "breakfast"),
        ("", "breakfast"),
        ("-", "breakfast"),
        ("zh-Hant-TW", "早餐時間"),
        ("zh-Hant", "早餐時間"),
        ("zh_TW", "早餐時間"),
        ("zh-HK", "早餐時間"),
        ("zh-Hans-CN", "早餐"),
        ("zh-CN", "早餐"),
        ("zh", "早餐"),
        ("iw-IL", "ארוחת בוקר"),
        ("he", "ארוחת בוקר"),
        ("no", "frokost"),
        ("nb-NO", "frokost"),
        (None, "breakfast"),
        (7, "breakfast"),
        ("\ud800", "breakfast"),
        ("x" * 5000, "breakfast"),
    ],
)
def test_the_closest_language_wins(locale: Any, expected: str) -> None:
    texts = {
        "de": "Frühstück",
        "de_AT": "Jause",
        "pt-br": "café da manhã",
        "zh": "早餐",
        "zh-Hant": "早餐時間",
        "he": "ארוחת בוקר",
        "nb": "frokost",
        "Default": "breakfast",
        3: "no locale",
    }
    assert pick_text(texts, locale) == expected


def test_a_string_is_for_everybody() -> None:
    assert pick_text(" as it is ", "de") == " as it is "
    assert pick_text("as it is", None) == "as it is"


@pytest.mark.parametrize(
    "value", [None, "", " \n", {}, {"de": "Frühstück"}, {"default": ""}, {"default": 1}, 1, ["a"], b"a"]
)
def test_where_there_is_nothing_to_say(value: object) -> None:
    assert pick_text(value, "fr") is None


def test_a_blank_translation_gives_way_to_the_next() -> None:
    assert pick_text({"de-AT": " ", "de": None, "default": "breakfast"}, "de-AT") == "breakfast"


def test_fallbacks_go_from_close_to_far() -> None:
    assert list(fallbacks("zh-TW")) == ["zh-tw", "zh-hant", "zh"]
    assert list(fallbacks("zh-Hant-TW")) == ["zh-hant-tw", "zh-hant", "zh"]
    assert list(fallbacks("en-US-u-ca-gregory")) == ["en-us-u-ca-gregory", "en-us-u-ca", "en-us", "en"]
    assert list(fallbacks("iw-IL")) == ["iw-il", "he-il", "iw", "he"]
    assert normal(" pt_BR.UTF-8 ") == "pt-br"


# How much of it.


@pytest.mark.parametrize(
    ("text", "most", "expected"),
    [
        ("breakfast", 9, "breakfast"),
        ("breakfast", 8, "break…"),
        ("good morning", 8, "good…"),
        ("abc", 3, "abc"),
        ("abcd", 3, "…"),
        ("abcd", 2, "ab"),
        ("abcd", 0, ""),
        ("abcd", -5, ""),
        ("", 0, ""),
        ("é", 1, ""),
        (FAMILY + "a", 26, FAMILY + "a"),
        (FAMILY + "a", 25, "…"),
        (FAMILY * 2, 49, FAMILY + "…"),
        (FAMILY * 2, 27, "…"),
        (FLAG * 3, 20, FLAG * 2 + "…"),
        (FLAG * 3, 15, FLAG + "…"),
        (THUMB * 2, 12, THUMB + "…"),
        (THUMB * 2, 10, "…"),
        (ZALGO + "x", 20, "…"),
        ("a" + ZALGO, 10, "a…"),
        (HANGUL * 2, 12, HANGUL + "…"),
        (HANGUL * 2, 11, "…"),
        (DEVANAGARI * 2, 15, DEVANAGARI + "…"),
        (HEBREW, 13, "שלום…"),
        ("line\r\nnext", 9, "line…"),
        ("abcd\u0301xyz", 7, "abc…"),
        ("a\u0301xyz", 1, ""),
    ],
)
def test_cuts_between_what_readers_take_for_characters(text: str, most: int, expected: str) -> None:
    found = cut(text, most)
    assert found == expected
    assert size(found) <= max(most, 0)


def test_a_directional_run_that_the_cut_opens_is_closed() -> None:
    isolated = f"\u2067{HEBREW * 4}\u2069 is Hebrew"
    found = cut(isolated, 40)
    assert found.startswith("\u2067")
    assert found.endswith("…\u2069")
    assert size(found) <= 40
    embedded = cut("\u202b" + HEBREW * 4 + "\u202c", 40)
    assert embedded.endswith("…\u202c")
    assert cut(f"\u2067{HEBREW}\u2069 and much more of it", 35).count("\u2069") == 1
    nested = cut("\u2066\u202b" + HEBREW * 4 + "\u202c\u2069", 40)
    assert nested.endswith("…\u202c\u2069")
    ended_together = "\u2067\u202b" + HEBREW + "\u2069"
    assert cut(ended_together + "x" * 40, 40).endswith("x…")
    # What has no room to be closed is not opened.
    assert cut("ab\u2067" + HEBREW, 7) == "ab…"
    # The end of a paragraph has closed it already.
    assert cut("\u2067" + "שלום\n" + "x" * 40, 30).endswith("x…")


@pytest.mark.parametrize("unit", ["\u2067", "\u202b" * 50 + "\u2069", "e" + "\u0301" * 5000, FAMILY, '"'])
def test_no_text_is_slow_to_cut(unit: str) -> None:
    started = time.process_time()
    assert fit(Content("", unit * (500_000 // len(unit)), {}), 3500) is not None
    assert time.process_time() - started < 0.3


def test_surrogates_become_characters_again_or_are_replaced() -> None:
    assert cut("\ud83d\udeeb", 10) == PLANE
    assert cut("a\ud83d", 10) == "a\ufffd"
    assert cut("\udeeb\ud83d", 10) == "\ufffd\ufffd"


SCRAPS = st.sampled_from(
    [
        FAMILY,
        FLAG,
        THUMB,
        ZALGO,
        HANGUL,
        DEVANAGARI,
        HEBREW,
        PLANE,
        "\u2067",
        "\u2069",
        "\u202c",
        "\n",
        '"',
        "\\",
        " ",
        "a",
    ]
)
TEXTS = st.one_of(
    st.text(), st.lists(SCRAPS).map("".join), st.lists(st.one_of(SCRAPS, st.text(max_size=3))).map("".join)
)
ANY_TEXTS = st.one_of(TEXTS, st.text(st.characters(exclude_categories=())))


@given(text=ANY_TEXTS, most=st.integers(-1, 120))
@properly
def test_never_longer_never_mid_character_and_never_cut_in_vain(text: str, most: int) -> None:
    found = cut(text, most)
    assert size(found) <= max(most, 0)
    whole = cut(text, 1_000_000)
    assert size(whole) >= 0  # can be encoded
    if size(whole) <= most:
        assert found == whole
        return
    if most >= 3:
        kept, ellipsis, closing = found.rpartition("…")
        assert ellipsis
        assert set(closing) <= {"\u2069", "\u202c"}
    else:
        kept = found
    parts = graphemes(whole)
    starts = {"".join(parts[:n]).rstrip() for n in range(len(parts) + 1)}
    assert kept in starts


@given(
    text=st.text(st.characters(exclude_categories=("Cs", "Cf", "Zs", "Zl", "Zp", "Cc")), min_size=1),
    most=st.integers(3, 60),
)
@properly
def test_as_many_characters_as_fit_are_kept(text: str, most: int) -> None:
    found = cut(text, most)
    if found != text:
        count = len(graphemes(found[:-1]))
        one_more = "".join(graphemes(text)[: count + 1])
        assert size(one_more + "…") > most


def unclosed(text: str) -> int:
    depth = 0
    for character in text:
        if unicodedata.bidirectional(character) == "B":
            depth = 0
        elif character in "\u2066\u2067\u2068":
            depth += 1
        elif character == "\u2069" and depth:
            depth -= 1
    return depth


@given(
    text=st.lists(st.sampled_from(["\u2066", "\u2067", "\u2068", "\u2069", "\n", "ab", HEBREW])).map("".join),
    most=st.integers(3, 60),
)
@properly
def test_isolates_are_balanced_after_a_cut(text: str, most: int) -> None:
    found = cut(text, most)
    if found != text:
        assert unclosed(found) == 0


# The whole of it.


def test_render_picks_texts_and_takes_the_link_over() -> None:
    found = render({"default": "Breakfast", "de": "Frühstück"}, "08:00", {"screen": "meal", "id": 7}, "de-DE")
    assert found == Content("Frühstück", "08:00", {"screen": "meal", "id": 7})


def test_one_of_the_two_texts_is_enough() -> None:
    assert render("Title", None, None, None) == Content("Title", "", {})
    assert render({"de": "Titel"}, "body", {}, "fr") == Content("", "body", {})


@pytest.mark.parametrize(("title", "body"), [(None, None), ("", " "), ({}, {"de": "x"}), (1, 2)])
def test_without_any_text_there_is_no_content(title: object, body: object) -> None:
    assert render(title, body, None, "fr") is None


def nested(depth: int) -> object:
    value: object = "leaf"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "data",
    [
        [],
        "screen=meal",
        0,
        False,
        b"{}",
        [("screen", "meal")],
        {1: "a"},
        {None: "a"},
        {"a": {2: "b"}},
        {"a": float("nan")},
        {"a": [1, {"b": float("-inf")}]},
        {"a": b"bytes"},
        {"a": {"set"}},
        {"a": nested(200)},
        {"a": nested(100_000)},
    ],
)
def test_a_link_that_is_no_json_object_is_refused(data: object) -> None:
    assert render("title", "body", data, None) is None


def test_what_mongodb_holds_and_json_does_not_becomes_text() -> None:
    identity = uuid.UUID(int=1)
    found = render(
        "t",
        "b",
        {
            "at": datetime(2026, 7, 1, 9, 30),  # noqa: DTZ001 - as the driver returns it
            "aware": datetime(2026, 7, 1, 9, 30, tzinfo=UTC),
            "day": date(2026, 7, 1),
            "id": identity,
            "price": Decimal("1.10"),
            "nested": {"list": (1, 2.5, None, True), "lone": "\ud800", "\udfff": "key"},
        },
        None,
    )
    assert found is not None
    assert found.data == {
        "at": "2026-07-01T09:30:00Z",
        "aware": "2026-07-01T09:30:00Z",
        "day": "2026-07-01",
        "id": str(identity),
        "price": "1.10",
        "nested": {"list": [1, 2.5, None, True], "lone": "\ufffd", "\ufffd": "key"},
    }
    assert found.data["nested"]["list"][3] is True


def test_the_link_is_a_copy() -> None:
    data = {"a": {"b": [1]}}
    found = render("t", "b", data, None)
    data["a"]["b"].append(2)
    assert found is not None
    assert found.data == {"a": {"b": [1]}}


def test_sizes_are_those_of_compact_json_in_utf8() -> None:
    assert payload_bytes({"a": 1, "b": ["é", "\n"]}) == len('{"a":1,"b":["é","\\n"]}'.encode())
    assert payload_bytes(PLANE) == 6
    for bad in (float("nan"), "\ud800"):
        with pytest.raises(ValueError, match=r".+"):
            payload_bytes(bad)
    with pytest.raises(TypeError):
        payload_bytes(uuid.UUID(int=1))


def weight(content: Content) -> int:
    return payload_bytes(content.title) + payload_bytes(content.body) + payload_bytes(content.data)


def test_the_body_gives_way_before_the_title_and_the_link_never() -> None:
    content = Content("A title", "word " * 500, {"screen": "meal"})
    fitted = fit(content, 200)
    assert fitted is not None
    assert (fitted.title, fitted.data) == (content.title, content.data)
    assert fitted.body.endswith("word…")
    assert 190 < weight(fitted) <= 200
    small = fit(Content("A long title " * 5, "a body", {"screen": "meal"}), 60)
    assert small is not None
    assert small.body == ""
    assert small.title.endswith("…")
    assert small.data == {"screen": "meal"}
    assert weight(small) <= 60
    assert fit(content, weight(content)) == content
    shortest = fit(content, payload_bytes(content.data) + 4)
    assert shortest == Content("", "", content.data)
    assert fit(content, payload_bytes(content.data) + 3) is None


def test_escapes_of_json_count() -> None:
    fitted = fit(Content("", '"\n\x01' * 100, {}), 60)
    assert fitted is not None
    assert 45 < weight(fitted) <= 60


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXTS, inner, max_size=3),
    max_leaves=8,
)


@given(
    title=ANY_TEXTS,
    body=ANY_TEXTS,
    data=st.dictionaries(ANY_TEXTS, JSON, max_size=4),
    budget=st.integers(-5, 300),
)
@example(title="t", body="b", data={}, budget=6)
@properly
def test_whatever_is_rendered_fits_or_is_said_not_to(title: str, body: str, data: dict[str, Any], budget: int) -> None:
    content = render(title, body, data, None)
    if content is None:
        assert not title.strip()
        assert not body.strip()
        return
    text = json.dumps(content.data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    assert json.loads(text.encode()) == content.data
    fitted = fit(content, budget)
    if fitted is None:
        assert budget < payload_bytes(content.data) + 4
        return
    assert weight(fitted) <= budget
    assert fitted.data == content.data
    if weight(content) <= budget:
        assert fitted == content
    elif fitted.title != content.title:
        assert len(graphemes(fitted.body)) <= 1
