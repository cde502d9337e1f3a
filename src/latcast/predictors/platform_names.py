"""The platforms that a user means by naming a device or a chip: "Pixel 6", "galaxy s24 npu", "tflite fp16 on SM-G991B's gpu".

A text is words in any order and case. Some of them in a row name a device or a chip of :mod:`latcast.chips`, or the first part of
a platform id; each of the others must say something of a platform: its runtime, kind of unit, cores, threads or precision. A text
with any other word names nothing, so that a misspelt device is never taken for another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations

from latcast.chips.chip_names import COPY, chip_of, chips_of, devices_named, find, same_unit
from latcast.chips.chip_table import Chip, Device, chips, devices, spellings
from latcast.chips.name_matching import BRANDS, joined, of_another_maker, words_of
from latcast.records import PUBLISHED_PRECISIONS, UNIT_KINDS, Platform, Unit

_SPELLINGS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(rf"(?<![a-z0-9])(?:{spelling})(?![a-z0-9])"), f" {word} ")
    for spelling, word in (
        (r"(?:tensor ?flow|tf)[ _-]?lite", "tflite"),
        (r"onnx[ _-]?run ?time|ort", "onnxruntime"),
        (r"open ?vino", "openvino"),
        (r"(?:py)?torch[ _-]mobile", "pytorch"),
        (r"paddle[ _-]lite", "paddle-lite"),
        (r"arm[ _-]nn", "armnn"),
        (r"tensor[ _-]rt|trt", "tensorrt"),
        (r"qnn|qualcomm ai hub|ai[ _-]hub", "qairt"),
        (r"(?:neural|hexagon|apple neural|qualcomm hexagon) (?:engine|processing unit|processor|accelerator|npu|dsp|htp)", "npu"),
        (r"dsp|htp|apu|ane|hta|hexagon|tpu", "npu"),
        (r"graphics|cuda|(?:adreno|mali|immortalis|powervr|xclipse) ?(?:-?[a-z]?\d+)? gpu", "gpu"),
        (r"(\d+)[ _-]?(?:threads?|cores?)", r"cpu\1"),
        (r"single[ _-]?thread(?:ed)?", "cpu1"),
        (r"f(?:loat|p)?[ _-]?(16|32)", r"fp\1"),
        (r"half(?:[ _-]precision)?", "fp16"),
        (r"(?:single|full)[ _-]precision|float", "fp32"),
        (r"(?:u?int|i)[ _-]?8|8[ _-]?bit|quanti[sz]ed|w8a8", "int8"),
        (r"\d+ ?gb(?: (?:of )?(?:ram|memory|storage))?|model [ab]", ""),  # which changes no latency
        (r"(?:android|i(?:pad)?os|macos|windows|linux|ubuntu|debian|raspbian)(?: \d+(?:\.\d+)*)?", ""),
        (r"moto(?= (?:edge|one|razr))", "motorola"),
        (r"(macbook (?:pro|air)) 1[3-6](?:[ -]?inch)?", r"\1"),
        (r"(?:developer|development|dev|evaluation|starter) ?(?:kit|board)", ""),
    )
)
"""Other spellings of words of platform ids, and what people add to a device's name."""

_FILLERS = frozenset(["on", "the", "a", "an", "with", "using", "at", "in", "via", "of", "'s", "phone", "board", "chip", "soc"])

_SAME_RUNTIME = (
    ("tflite", "litert"), ("paddle-lite", "paddle"), ("pytorch", "torch"), ("hailo-dfc", "hailo", "hailort"),
    ("qairt", "qnn", "qnn_dlc", "snpe"), ("onnxruntime", "onnx", "ort"), ("tensorrt", "trt"), ("drp-ai-tvm", "drp-ai"),
    ("rknpu2", "rknn-toolkit2"),
)  # fmt: skip
"""Names of one runtime, that of ids first."""

LIBRARIES: Mapping[str, frozenset[str]] = {"tflite": frozenset({"xnnpack"})}
"""Runtimes to the libraries of kernels that they may take, each of which was also measured by itself."""

NATURAL_PRECISIONS: Mapping[str, Sequence[str]] = {"cpu": ("fp32",), "gpu": ("fp16", "fp32"), "npu": ("int8", "w8a16", "fp16")}
"""Kind of unit to the precisions that networks have there where none is named."""

_VERSION = re.compile(r"[-v]*(\d+(?:\.\d+)+)")

_OWNER, _RASPBERRY = re.compile(r"['’]s\b"), re.compile(r"\b(?:rpi|raspi)[ _-]?(?=\d|zero|pico)")

_WORD = re.compile(r"[^\s/,()\[\]]+")


@dataclass(frozen=True)
class Named:
    """A text that names a device or a chip.

    Attributes:
        device: The words that name it.
        entries: What they name; several are variants of a device, or share a chip. None where only platform ids know the name.
        platforms: Ids of the known platforms of it that the other words allow, sorted; where there are none, those of other
            devices that have the same unit.
        said: What the other words say.
        alike: Whether the platforms are of other devices, with the same silicon and unit.
        is_id: Whether the text has the form of a platform id, so that ``said`` is runtime, unit and precision.
    """

    device: str
    entries: tuple[Device | Chip, ...]
    platforms: tuple[str, ...]
    said: tuple[str, ...]
    is_id: bool = False
    alike: bool = False


def read_name(text: str, known: Iterable[str]) -> Named | None:
    """Return what a text names; None where no words in it are a device's or chip's, or some others say nothing of a platform.

    Args:
        text: As a user types it.
        known: Ids of all platforms.
    """
    ids = tuple(known)
    parts = [part.strip() for part in text.split("/")]
    if len(parts) == 4:
        return _read_id(parts, ids)
    understood = frozenset().union(*map(words_of_platform, ids), _FILLERS, UNIT_KINDS, PUBLISHED_PRECISIONS, *_SAME_RUNTIME)
    runtimes = frozenset().union(*map(_runtime_names, ids))
    plain = spelt = _RASPBERRY.sub("raspberry pi ", _OWNER.sub("", text.lower()))
    for spelling, word in _SPELLINGS:
        spelt = spelling.sub(word, spelt)
    # Spellings may touch a device's own name ("Coral TPU"), so that the text is tried as it stands first.
    for words in dict.fromkeys(_with_versions(_WORD.findall(each), runtimes) for each in (plain, spelt)):
        for length in range(len(words), 0, -1):
            for begin in range(len(words) - length + 1):
                rest = (*words[:begin], *words[begin + length :])
                ends = {words[begin], words[begin + length - 1]} if length > 1 else set()
                if "cpu" in ends:
                    continue  # names are found without that word, which chooses among the device's platforms
                if all(word in understood or without_version(word) in runtimes for word in rest):
                    device = " ".join(words[begin : begin + length])
                    # "RTX 4090 GPU" is the RTX 4090, though only the laptop's has all three words in its name.
                    found = _entries(device, exactly=not ends.isdisjoint(UNIT_KINDS))
                    mine = platforms_of(device, found, ids)
                    if found or mine:
                        said = tuple(word for word in rest if word not in _FILLERS)
                        for platforms in (mine, _with_the_same_unit(found, ids)):
                            for wanted in (said, tuple(map(without_version, said))):
                                fit = tuple(name for name in platforms if words_of_platform(name).issuperset(wanted))
                                if fit:
                                    return Named(device, found, fit, said, alike=platforms is not mine)
                        return Named(device, found, (), said)
    return None


def _with_versions(words: Sequence[str], runtimes: frozenset[str]) -> tuple[str, ...]:
    """Return words with those that are a version behind a runtime joined with it: ``tflite-2.14``."""
    found: list[str] = []
    for word in words:
        version = _VERSION.fullmatch(word)
        if version is not None and found and found[-1] in runtimes:
            found[-1] += f"-{version[1]}"
        else:
            found.append(word)
    return tuple(found)


def without_version(word: str) -> str:
    """Return a runtime without its version: ``tflite`` for ``tflite-2.14``. A word without a version is returned unchanged."""
    runtime, _, version = word.rpartition("-")
    return runtime if _VERSION.fullmatch(version) else word


def _read_id(parts: Sequence[str], known: Sequence[str]) -> Named | None:
    """Return what a platform id names whose device is in any spelling, with or without the runtime's version, in any case."""
    device, runtime, unit, precision = parts[0], *(part.lower() for part in parts[1:])
    kind = unit.partition("+")[0].rstrip("0123456789")
    mentioned = None if _entries(device) else chip_of(device, "", kind if kind in UNIT_KINDS else "")
    entries = _entries(device) if mentioned is None else (mentioned,)
    mine = platforms_of(device, _entries(device), known)
    fit = tuple(name for name in mine if name.endswith(f"/{unit}/{precision}") and runtime in words_of_platform(name))
    return Named(device, entries, fit, (runtime, unit, precision), True) if entries or mine else None


def names_of_runtime(name: str) -> frozenset[str]:
    """Return all names of a runtime, this one too."""
    return frozenset(next((names for names in _SAME_RUNTIME if name in names), {name}))


def usual_runtime(name: str) -> str:
    """Return the name that ids have for a runtime: ``tflite`` for ``litert``."""
    return next((names[0] for names in _SAME_RUNTIME if name.lower() in names), name)


def runtime_called(text: str) -> str:
    """Return a runtime as platform ids name it: ``tflite-2.16`` for "TensorFlow Lite 2.16"; one that an id may hold unchanged."""
    if re.fullmatch(r"[a-z0-9._+-]+", text):
        return text
    spelt = text.lower()
    for spelling, word in _SPELLINGS:
        spelt = spelling.sub(word, spelt)
    return re.sub(r"[^a-z0-9._+]+", "-", spelt).strip("-")


COLLECTIONS: Mapping[str, str] = {
    "ncnn": "ncnn_benchmark", "qairt": "aihub", "hailo-dfc": "hailo", "rknpu1": "rknn", "rknpu2": "rknn",
}  # fmt: skip
"""Runtime to the collection whose networks are timed with it."""


def collection_of(platform: Platform) -> str:
    """Return the collection whose networks are meant by their names where a platform was measured; empty where it has none.

    All runtimes reach Qualcomm's NPUs by QAIRT.
    """
    runtimes = [platform.runtime, *(part.partition("-")[0] for part in platform.unit.split("+")[1:])]
    chip = chip_of(platform.device, "", "npu") if Unit.parse(platform.unit).kind == "npu" else None
    if chip is not None and chip.vendor == "Qualcomm":
        runtimes.append("qairt")
    return next((COLLECTIONS[name] for name in map(usual_runtime, runtimes) if name in COLLECTIONS), "")


@lru_cache(maxsize=4096)
def _runtime_names(platform_id: str) -> frozenset[str]:
    return names_of_runtime(Platform.parse(platform_id).runtime)


@lru_cache(maxsize=4096)
def words_of_platform(platform_id: str) -> frozenset[str]:
    """Return the words that say something of a platform beside its device."""
    platform = Platform.parse(platform_id)
    unit = Unit.parse(platform.unit)
    runtimes = names_of_runtime(platform.runtime)
    sizes = {size for _, size in unit.cores}
    in_any_order = ("".join(f"{count}{size}" for count, size in order) for order in permutations(unit.cores))
    return frozenset(
        {
            *runtimes, *(f"{name}-{platform.runtime_version}" for name in runtimes), platform.runtime_version, platform.precision,
            unit.kind, f"{unit.kind}{unit.threads}", platform.unit, *platform.unit.split("+"), *sizes, *in_any_order,
            *(["big"] if "large" in sizes else ["little"] if sizes == {"small"} else []),
        }
    )  # fmt: skip


def _entries(text: str, *, exactly: bool = False) -> tuple[Device | Chip, ...]:
    """Return the devices or chips that a text names: several are variants of one ("Galaxy S24"), or have the same chip.

    Args:
        text: As a user types it.
        exactly: Whether it has to be a whole name.
    """
    said = words_of(text).words
    brand = said[0] if said and said[0] in BRANDS else ""
    named = [each for each in find(text) if each.exact and each.by == "name"]
    entries = [each.device or each.chips[0] for each in named if not (each.device and of_another_maker(each.name, brand))]
    if entries:
        return tuple(entries)
    if exactly or not any(word[-1:].isdigit() or word[:1].isdigit() for word in said):
        return ()
    for wanted in dict.fromkeys((said, said[bool(brand) :])):
        nearest = _names_with(wanted, brand)
        same = [each for entries in nearest.values() for each in entries]
        if len(nearest) == 1 or len({chip.die for each in same for chip in chips_of(each)[:1]}) == 1:
            return tuple(dict.fromkeys(same))
    return ()


_NETWORKS = frozenset(["4g", "5g"])
"""Words of phones' names that people leave out."""


def _names_with(wanted: Sequence[str], brand: str) -> dict[str, list[Device | Chip]]:
    """Return names that hold all these words and at most one more, without what stands in parentheses, to what they name.

    Names of another maker than the brand are left out.
    """
    nearest: dict[str, list[Device | Chip]] = {}
    least = (True, 1)
    for name, owner, is_device in spellings():
        bare = name.partition("(")[0].strip().lower()
        if is_device and of_another_maker(owner, brand):
            continue
        # The words of a thousand names are not taken apart where a look shows that one is missing.
        if all(word in bare for word in wanted) and set(words := words_of(bare).words).issuperset(wanted):
            more = set(words).difference(wanted)
            distance = (bool(more), len(more - _NETWORKS))
            if distance < least:
                least, nearest = distance, {}
            if distance == least:
                nearest.setdefault(bare, []).append(devices()[owner] if is_device else chips()[owner])
    return nearest


def platforms_of(text: str, entries: Sequence[Device | Chip], known: Sequence[str]) -> list[str]:
    """Return the known platforms of devices with this name in ids, of the named devices, or with the named chips."""
    wanted = joined(text)
    chip_ids = {each.id for each in entries if isinstance(each, Chip)}
    found = []
    for name in known:
        device, _, unit, _ = name.split("/")
        kind = Unit.parse(unit).kind
        if joined(COPY.sub("", device)) == wanted or not _devices_of(device).isdisjoint(entries):
            found.append(name)
        elif chip_ids:
            chip = chip_of(device, "", kind if kind in UNIT_KINDS else "")
            if chip is not None and chip.id in chip_ids:
                found.append(name)
    return found


def _with_the_same_unit(entries: Sequence[Device | Chip], known: Sequence[str]) -> list[str]:
    """Return the known platforms on a unit that the named chip or device has too, of the same silicon; none where it may have
    several."""
    if len({chips_of(each)[0].die for each in entries}) > 1:
        return []
    named = [chip for each in entries for chip in chips_of(each)]
    found = []
    for name in known if named else ():
        device, _, unit, _ = name.split("/")
        kind = Unit.parse(unit).kind
        chip = chip_of(device, "", kind) if kind in UNIT_KINDS else None
        if chip is not None and any(same_unit(chip, each, kind) for each in named):
            found.append(name)
    return found


@lru_cache(maxsize=4096)
def _devices_of(text: str) -> frozenset[Device]:
    return frozenset(devices_named(text))


WELL_KNOWN_PERCENT, AS_WELL_KNOWN = 10.0, 1.5
"""Held-out error up to which a platform is known well enough for another runtime not to be preferred for its error; and so many
times the least error of any."""

REFERENCE_KERNELS = "builtin"
"""Qualifier of a unit that ran TFLite's kernels from before there were optimised ones: several times slower."""

USUAL_RUNTIME = "tflite"
"""Runtime that most of the known devices have been measured with."""


def best_known(named: Named, cards: Mapping[str, Mapping[str, object]], precision: str = "") -> tuple[str, ...]:
    """Return the best-founded platform of each kind of unit, CPU first.

    Of those with the precision that is natural there, the fastest cores and optimised kernels, unless others are said, that
    learned from at least half as many networks as any, and of these with the fewest threads, it is the one with the lowest
    held-out error; where several are known well, or about as well, the one of the most usual runtime.

    Args:
        named: What the user named.
        cards: Platform id to card; see :mod:`latcast.predictors.card`.
        precision: Preferred to the natural one, by units that have it.
    """
    by_kind: dict[str, list[Platform]] = {}
    for name in named.platforms:
        platform = Platform.parse(name)
        by_kind.setdefault(Unit.parse(platform.unit).kind, []).append(platform)
    chosen = []
    for kind in sorted(by_kind, key=[*UNIT_KINDS, *by_kind].index):
        found = by_kind[kind]
        preferred = (precision, *NATURAL_PRECISIONS.get(kind, ()))
        natural = [[each for each in found if each.precision == one] for one in preferred]
        found = next(filter(None, natural), found)
        found = [each for each in found if "big" in words_of_platform(each.id)] or found
        found = [each for each in found if REFERENCE_KERNELS not in Unit.parse(each.unit).qualifiers] or found
        learned = [_number(cards[each.id].get("networks"), 0.0) for each in found]
        enough = [each for each, count in zip(found, learned, strict=True) if 2 * count >= max(learned)]
        # Platforms of several precisions are then of the same cores.
        fewest = min(Unit.parse(each.unit).threads for each in enough)
        enough = [each for each in enough if Unit.parse(each.unit).threads == fewest]
        errors = {each.id: _number(cards[each.id].get("mape"), math.inf) for each in enough}
        most = max(WELL_KNOWN_PERCENT, AS_WELL_KNOWN * min(errors.values()))
        well_known = [each for each in enough if errors[each.id] <= most < math.inf]
        usual = [each for each in well_known if each.runtime.startswith(USUAL_RUNTIME)]
        chosen.append(min((each.id for each in usual or enough), key=lambda name: (errors[name], name)))
    return tuple(chosen)


def _number(value: object, otherwise: float) -> float:
    return float(value) if isinstance(value, int | float) else otherwise
