"""Which locales can stand in for another one."""

from collections.abc import Iterator
from functools import lru_cache
from types import MappingProxyType
from typing import Final

# Codes that Android and Java go on sending decades after they were renamed; and Norwegian, mostly Bokmål.
_OTHER_CODE: Final = MappingProxyType(
    {"iw": "he", "he": "iw", "in": "id", "id": "in", "ji": "yi", "yi": "ji", "no": "nb", "nb": "no"},
)
# Regions that write another script than the language does elsewhere: zh-TW reads zh-Hant, not zh.
_SCRIPT_OF_REGION: Final = MappingProxyType({("zh", "tw"): "hant", ("zh", "hk"): "hant", ("zh", "mo"): "hant"})


@lru_cache(maxsize=1024)
def normal(locale: str) -> str:
    """Return a BCP 47 or POSIX locale in lower case with hyphens: ``pt_BR.UTF-8`` is ``pt-br``."""
    return locale.strip().partition(".")[0].partition("@")[0].replace("_", "-").lower()


@lru_cache(maxsize=1024)
def fallbacks(locale: str) -> tuple[str, ...]:
    """Return the normal forms of a locale, the closest first: each without the last subtag of the one before.

    As in the lookup of RFC 4647, a subtag of one letter goes together with what it introduces.
    """
    return tuple(_fallbacks(normal(locale).split("-")))


def _fallbacks(subtags: list[str]) -> Iterator[str]:
    language = subtags[0]
    script = _SCRIPT_OF_REGION.get((language, subtags[1])) if len(subtags) > 1 else None
    while subtags:
        yield from _spellings(subtags)
        subtags = subtags[:-1]
        while subtags and len(subtags[-1]) == 1:
            subtags = subtags[:-1]
        if script is not None and len(subtags) == 1:
            yield f"{language}-{script}"


def _spellings(subtags: list[str]) -> Iterator[str]:
    yield "-".join(subtags)
    other = _OTHER_CODE.get(subtags[0])
    if other is not None:
        yield "-".join([other, *subtags[1:]])
