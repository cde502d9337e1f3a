"""The whole name of a device that is named in short, and advice on how to name one, for messages about a text that means none."""

from __future__ import annotations

import re
from difflib import get_close_matches

from latcast.chips.chip_names import chip_of, chips_of, find, nearest_known
from latcast.chips.name_matching import qualifies
from latcast.predictors.bundle_index import platform_ids
from latcast.predictors.platform_names import read_name
from latcast.records import UNIT_KINDS


def whole_name(text: str, vendor: str = "") -> str:
    """Return the name of the device or chip that a text means where platforms are named ("S24 Ultra", "M2 MacBook Air").

    The text is returned where it means none, or devices with different chips. A GPU or NPU means the chip that alone has it.

    Args:
        text: As a user types it.
        vendor: Of the chip, where that is known; see :func:`latcast.chips.chip_names.vendor_of`.
    """
    if chip_of(text, vendor=vendor) is not None:
        return text
    named = read_name(text, platform_ids())
    entries = [(each.name, chips_of(each)[0]) for each in (named.entries if named is not None else ())]
    entries = entries or [(each.chips[0].name, each.chips[0]) for each in find(text) if each.by in ("gpu", "npu")]
    entries = [each for each in entries if each[1].vendor == vendor] or entries
    return entries[0][0] if len({chip.die for _, chip in entries}) == 1 else text


def may_mean(text: str) -> str:
    """Return the end of a message about a text that names no one chip: what it may mean, or is spelled like."""
    found = [each.name for each in find(text)[:MOST_MEANT]]
    near = [] if found else nearest_known(text)
    return f"; it may mean {', '.join(found)}" if found else f"; nearest: {', '.join(near)}" if near else ""


MOST_MEANT = 4
"""Devices and chips that a message names."""


def what_to_name(text: str) -> str:
    """Return the middle of a message about a text that names no device: what it is, or is most like, and what to name instead."""
    known = platform_ids()
    named = read_name(text, known)
    has = [kind.upper() for kind in UNIT_KINDS if named and any(c.has(kind) for e in named.entries for c in chips_of(e))]
    if named and has and not named.is_id:
        return f"of {named.device} only the {' and '.join(has)} {'are' if len(has) > 1 else 'is'} known"
    if text.lower() in OF_NO_DEVICE:
        return (
            f"'{text}' names no device; name one with its unit or runtime, as in 'Raspberry Pi 5 CPU' or 'Pixel 4 tflite gpu'; "
            "this machine is local once latcast profile has measured it"
        )
    if found := find(text):
        part = "part of the name" if found[0].by == "name" else f"the {found[0].by}"
        such = ", ".join(each.name for each in found[:MOST_MEANT])
        many = f"{len(found)} devices and chips, such as {such}; name one" if len(found) > 1 else f"{such}; name that"
        return f"'{text}' is {part} of {many}: latcast platforms --find '{text}'"
    words = text.split()
    for place, length in ((place, length) for length in (1, 2) for place in range(len(words))):
        left_out = " ".join(words[place : place + length])
        rest = " ".join(words[:place] + words[place + length :])
        if any(map(qualifies, left_out.lower().split())):
            continue  # without it, it is another device
        if not re.fullmatch(r"[a-z]+|\d+w|[a-z]+ v?\d+(\.\d+)+", left_out, re.I):
            continue
        if (named := read_name(rest, known)) is not None and any(each.exact for each in find(named.device)):
            return (
                f"'{left_out}' says nothing of a platform of {named.device}: leave it out, or name a runtime, unit or precision"
            )
    if (chip := chip_of(text)) is not None:
        return f"of '{text}' the chip is known: '{chip.name}'; name that"
    own = get_close_matches(text.lower(), {name.split("/")[0] for name in known}, cutoff=0.8)
    near = dict.fromkeys((*own, *nearest_known(text)))
    if not near:
        return "no known name is like it; name its chip, or add it from a few timed networks (latcast device kit)"
    return f"nearest devices and chips: {', '.join(near)}; name a device or chip, its unit and runtime"


OF_NO_DEVICE = frozenset((
    "android", "arm", "board", "cpu", "cuda", "desktop", "device", "edge", "gpu", "here", "host", "ios", "laptop", "linux",
    "localhost", "mobile", "my computer", "my laptop", "my machine", "my phone", "npu", "phone", "smartphone", "this",
    "this machine", "tpu", "windows", "x86",
))  # fmt: skip
"""Words that people write for a device without naming one."""
