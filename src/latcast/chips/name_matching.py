"""The comparison of names of chips and devices by whole words, without case, blanks, hyphens and underscores.

"pixel_4" and "Pixel 4" are one name; "855" is not in "QCS8550", nor "nano" in "NanoPi": a name begins and ends where words do.
"Redmi Note 8" is not in "Redmi Note 8 Pro", since "Pro" makes it another device's name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

BRANDS = frozenset(
    re.findall(
        r"\w+",
        """alibaba allwinner amd amlogic ampere apple aws axelera axera azure broadcom core dimensity dragonwing espressif exynos
        geforce google hailo helio himax hisilicon huawei ingenic instinct intel kendryte kirin loongson marvell mediatek
        microsoft motorola movidius nordic nvidia nxp oppo phytium qualcomm quadro radeon renesas rockchip samsung snapdragon
        sophgo spacemit starfive stmicroelectronics sunway synaptics tesla ti tiger unisoc vivo xeon xiaomi""",
    )
)
"""First words that people leave out of names."""

_MAKERS = {
    **{maker: maker for maker in ("apple", "google", "huawei", "microsoft", "motorola", "oppo", "samsung", "vivo", "xiaomi")},
    "galaxy": "samsung", "ipad": "apple", "iphone": "apple", "macbook": "apple", "mi": "xiaomi", "moto": "motorola",
    "nexus": "google", "pixel": "google", "poco": "xiaomi", "redmi": "xiaomi", "surface": "microsoft",
}  # fmt: skip
"""First words of devices' names to who makes them."""

_QUALIFIERS = frozenset(
    re.findall(
        r"\w+",
        """3g 4g 5g a ai c ce e edge fe flip fold g gen gt i laptop lite m max mini mobile nano neo note nx one play power
        prime pro r s se super t ti turbo ultra w x xl z""",
    )
)
"""Words that make the name before them another device's."""

_LEAST = 5
"""Fewest letters and digits of a name that is looked for in longer texts; shorter ones ("855", "M1") must be the whole text."""


@dataclass(frozen=True)
class Words:
    """A text in the form in which names are compared.

    Attributes:
        text: Lower-case letters, digits and ``+``, without separators.
        words: The text's words.
        starts: Begin of each word in ``text``.
        attached: Whether no bracket, comma or similar sign stands before it.
    """

    text: str
    words: tuple[str, ...]
    starts: tuple[int, ...]
    attached: tuple[bool, ...]

    def places(self, name: Words) -> Iterator[tuple[int, int]]:
        """Return begin and end of each place where whole words make up a name; none of its words goes over a bracket or comma."""
        begin = self.text.find(name.text)
        while begin >= 0:
            end = begin + len(name.text)
            if begin in self.starts and (end == len(self.text) or end in self.starts):
                apart = (at - begin for at, near in zip(self.starts, self.attached, strict=True) if begin < at < end and not near)
                if all(at in name.starts for at in apart):
                    yield begin, end
            begin = self.text.find(name.text, begin + 1)

    def names_another(self, begin: int, end: int, *, without_maker: bool, of_device: bool) -> bool:
        """Return whether the words around a name make it another device's.

        Args:
            begin, end: Of the name.
            without_maker: Whether the name lacks its maker, which then stands before no other: "12 Pro" in "Reno 12 Pro".
            of_device: Whether a device has it, which a number behind makes another one: "Realme GT" in "Realme GT 6".
        """
        first = self.starts.index(begin)
        if without_maker and first and self.attached[first]:
            return True
        if end == len(self.text):
            return False
        place = self.starts.index(end)
        word, unit = self.words[place], "".join(self.words[place + 1 : place + 2])
        numbered = of_device and word.isdigit() and len(word) < 3 and self.words[place - 1].isalpha() and unit != "gb"
        return self.attached[place] and (qualifies(word) or numbered)


def qualifies(word: str) -> bool:
    """Return whether a word makes the name beside it another device's: "pro", "gen2", a maker, or the year of a model."""
    return word in _QUALIFIERS or word in _MAKERS or word.startswith("gen") or _YEAR.fullmatch(word) is not None


_YEAR = re.compile("20[12][0-9]")

_NOISE = re.compile(r"\((?:r|tm|c)\)|[®™]|(?<![a-z0-9])(?:cpu|processor)(?![a-z0-9])", re.IGNORECASE)
_PLUS = re.compile(r"(?:(?<=\d)|[\s_\-]+)plus(?![a-z0-9])")
_APART = frozenset("()[]{},;:&|")
_WORD = re.compile(r"([^a-z0-9]*)([a-z0-9]+\+*)")


def words_of(text: str) -> Words:
    """Return a text as names are compared; "plus" is "+", and "(R)", "(TM)", "CPU" and "processor" are left out."""
    plain = _NOISE.sub(" ", text).lower()
    if not plain.isascii():
        plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    if "plus" in plain:
        plain = _PLUS.sub("+", plain.replace("one plus", "oneplus"))
    found = _WORD.findall(plain)
    words = tuple(word for _, word in found)
    starts, begin = [], 0
    for word in words:
        starts.append(begin)
        begin += len(word)
    return Words("".join(words), words, tuple(starts), tuple(_APART.isdisjoint(before) for before, _ in found))


def of_another_maker(name: str, brand: str) -> bool:
    """Return whether a device's name begins with another maker than a brand is: "OPPO A54" is of another than "samsung"."""
    makers = {_MAKERS.get(word) for word in (name.lower().partition(" ")[0], brand)}
    return len(makers - {None}) > 1


_SPECIAL = re.compile(r"[^\x00-\x7f]|plus|cpu|processor|\((?:r|tm|c)\)")
_SEPARATORS = str.maketrans("", "", " _-.,:;/\\()[]&*@'\"")


def joined(name: str) -> str:
    """Return :attr:`Words.text` of a name, quickly: the table has thousands."""
    plain = name.lower()
    return words_of(name).text if _SPECIAL.search(plain) else plain.translate(_SEPARATORS)


def is_telling(name: str, plain: str) -> bool:
    """Return whether a name (as written, and :func:`joined`) is looked for in longer texts: it has digits, or several words."""
    return len(plain) >= _LEAST and not plain.isdigit() and (not plain.isalpha() or len(plain) < len(name))


def ways_to_write(name: str) -> Iterator[str]:
    """Yield a name and its other spellings: without its brand, "sd" for Snapdragon, "g3" for "gen 3", Intel's numbers alone."""
    yield name
    if intel := re.fullmatch(r"(?:(?:intel )?core )?i[3579]-(\d{4,5}\w*)", name.lower()):
        yield f"intel {intel[1]}"
    first, _, rest = name.lower().partition(" ")
    if rest and first in BRANDS:
        yield rest
        if first == "snapdragon":
            yield f"sd {rest}"
            yield f"sd {rest.replace(' gen ', 'g')}"
