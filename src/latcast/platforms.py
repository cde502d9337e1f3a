"""Resolves the platforms that a user means: ids, names of devices and chips, patterns, bundles; and loads their predictors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from latcast.errors import UnknownPlatformError
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import (
    LOCAL,
    SHIPPED_FOLDER,
    PooledPlatform,
    cards_of,
    is_path_or_address,
    platform_ids,
    resolve_platform,
)
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import PUBLISHED_PRECISIONS, UNIT_KINDS, Platform, Unit
from latcast.registry import is_pattern, matched

if TYPE_CHECKING:
    from latcast.predictors.platform_names import Named

On = str | os.PathLike[str] | Platform | PooledPlatform | PlatformPredictor
"""A platform: its id, a beginning of it that no other has, a name that means one, a bundle's path, or a loaded predictor."""

Note = Callable[[str], None]
"""Told, in a sentence, which platforms were taken for a text that is not the id of one."""


Found = Path | PooledPlatform | PlatformPredictor
"""A platform that was found: its bundle, its place in the pool, or its predictor."""


@dataclass(frozen=True)
class NamedPlatforms:
    """Platforms as :func:`resolve_platforms` takes them, where a list of platforms is expected: a text may mean several.

    Attributes:
        names: As a user gives them.
        note: See :func:`platforms_meant`.
    """

    names: tuple[On, ...]
    note: Note | None = None


Platforms = Sequence[On] | NamedPlatforms
"""Several platforms."""


def load(platform: On) -> PlatformPredictor:
    """Return the predictor of a platform; kept in memory once loaded.

    Args:
        platform: Its id, a beginning of it that no other has (``"local/onnxruntime"``), a device or chip with what tells its
            platforms apart (``"pixel 4 tflite gpu"``), or a bundle's path.

    Raises:
        UnknownPlatformError: No such platform; the message suggests the nearest names.
        BundleError: The bundle is damaged.

    Example:
        >>> import latcast
        >>> phone = latcast.load("pixel4/tflite-2.10/gpu/fp16")
        >>> phone.predict("resnet18")
        <Prediction resnet18 on pixel4/tflite-2.10/gpu/fp16: 20.3 ms, 90 % interval 19.3 to 21.8 ms, good, ±3 %>
    """
    return _loaded(_found(platform))


def _found(platform: On, precision: str = "") -> Found:
    if isinstance(platform, PooledPlatform | PlatformPredictor):
        return platform
    if isinstance(platform, Platform) or not isinstance(platform, str):
        return resolve_platform(platform)
    found = platforms_meant(platform, precision=precision)
    if len(found) > 1:
        raise UnknownPlatformError(
            f"'{platform}' is the name of {len(found)} platforms, expected one; name one or give a list of them: "
            f"{', '.join(map(_id_of, found))}"
        )
    return found[0]


def platforms_meant(text: str, note: Note | None = None, precision: str = "") -> list[Found]:
    """Return the platforms that a text means: one, or the best known of each kind of unit of a device or chip.

    Args:
        text: A bundle's path, a platform id or a beginning of it, or a device or chip; see :func:`meaning_of`.
        note: Told, in a sentence, what was taken where the text is not an id.
        precision: See :func:`meaning_of`.

    Returns:
        Predictors where nothing was measured on the device: from what is known of its chip.

    Raises:
        UnknownPlatformError: It means none; the message lists the nearest names.
    """
    try:
        return [resolve_platform(text)]
    except UnknownPlatformError:
        if is_path_or_address(text) or text.partition("/")[0] == LOCAL:
            raise
        found = meaning_of(text, platform_ids(), cards_of, precision)
        if found is None or not (found.taken or found.from_chip):
            if "/" in text:
                raise  # with the nearest ids
            from latcast.devices.naming_advice import what_to_name

            raise UnknownPlatformError(f"no predictor for '{text}'; {what_to_name(text)}; all: latcast platforms") from None
        if note is not None and found.note:
            note(found.note)
        taken = map(resolve_platform, found.taken)
        return [*(_loaded(each).standing_in() if found.alike else each for each in taken), *found.from_chip]


@dataclass(frozen=True)
class Meaning:
    """Platforms that a text means.

    Attributes:
        platforms: Ids of all known ones that it names.
        taken: Of these the best known of each kind of unit.
        from_chip: Where nothing was measured on the device, predictors of its units from what is known of its chip; of those
            that were measured on other devices with its silicon there are none.
        note: What was taken, in a sentence; empty where the text is the id of one platform, or names only one.
        alike: Whether the platforms are of other devices with the same silicon, for which their predictors stand in.
    """

    platforms: tuple[str, ...]
    taken: tuple[str, ...]
    from_chip: tuple[PlatformPredictor, ...]
    note: str
    alike: bool = False


def meaning_of(
    text: str, known: Sequence[str], cards: Callable[[Iterable[str]], Mapping[str, Mapping[str, Any]]], precision: str = ""
) -> Meaning | None:
    """Return what a text means: one platform, or the best known of each kind of unit of a device or chip.

    Args:
        text: A device or chip in any spelling, with what else is known of the platform in any order ("galaxy s10 gpu",
            "fp16 on RK3588"), or a platform id; see :mod:`latcast.predictors.platform_names`.
        known: Ids of the platforms among which it is looked for.
        cards: Returns the cards of some of them by id.
        precision: That is meant where the text says none and the device has it; the natural one of each unit by default.

    Returns:
        No platforms for the id of one that is not known; None where no device or chip is named.
    """
    from latcast.predictors.platform_names import best_known, read_name, without_version, words_of_platform

    named = read_name(text, known)
    if named is None:
        return None
    if named.is_id or set(PUBLISHED_PRECISIONS).intersection(named.said):
        precision = ""
    if precision and not any(name.endswith(f"/{precision}") for name in named.platforms):
        narrowed = read_name(f"{text} {precision}", known)
        if narrowed is not None and bool(narrowed.platforms) >= bool(named.platforms):
            named, text, precision = narrowed, f"{text} {precision}", ""
    taken = best_known(named, cards(named.platforms), precision)
    if named.platforms and not named.alike:
        note = ""
        if len(named.platforms) > 1:
            each = (f" for {precision}" if precision else "") + (" of each unit" if len(taken) > 1 else "")
            note = (
                f"'{text}' names {len(named.platforms)} platforms; the best known{each} is taken; "
                f"all: latcast platforms '{text}'{_unmeasured_units(named, known)}"
            )
        if others := [word for word in named.said if without_version(word) != word and word not in words_of_platform(taken[0])]:
            note += f"{'; ' if note else ''}{others[0]} was not measured there, {taken[0].split('/')[1]} answers"
        return Meaning(named.platforms, taken, (), note)
    from latcast.devices.unmeasured import unmeasured_platforms

    measured = {Unit.parse(name.split("/")[2]).kind for name in taken}
    found = tuple(each for each in unmeasured_platforms(named, known) if Unit.parse(each.platform.unit).kind not in measured)
    said = []
    if not named.is_id:
        said += ["from other devices with its silicon"] if taken else []
        said += ["from its chip"] if found else []
    note = f"'{text}' is answered {' and '.join(said)}" if said else ""
    return Meaning(named.platforms, taken, found, note, named.alike)


def _unmeasured_units(named: Named, known: Sequence[str]) -> str:
    """Return the end of a note: the units of a device on which nothing was measured, where none was named."""
    from latcast.chips.chip_names import chips_of
    from latcast.predictors.platform_names import platforms_of

    measured = {Unit.parse(name.split("/")[2]).kind for name in platforms_of(named.device, named.entries, known)}
    others = [
        kind for kind in UNIT_KINDS if kind not in measured and any(c.has(kind) for e in named.entries for c in chips_of(e))
    ]
    if not others or not {Unit.parse(word).kind for word in named.said}.isdisjoint(UNIT_KINDS):
        return ""
    units = " and ".join(each.upper() for each in others)
    return f"; nothing was measured on its {units}, which the chip answers for: '{named.device} {others[0]}'"


def all_platforms_of(text: str) -> dict[str, On]:
    """Return all platforms that a text names by their ids; those of other devices stand in for the one that is named."""
    if is_path_or_address(text):
        found = resolve_platform(text)
        return {_id_of(found): _loaded(found)}
    ids, alike = platforms_named(text)
    return {name: load(name).standing_in() if alike else name for name in ids}


def platforms_named(text: str) -> tuple[list[str], bool]:
    """Return the ids of all platforms that a text names: those of a pattern, those that begin so, or a device's or chip's.

    Returns:
        The ids, and whether they are of other devices with the silicon of the one that is named.

    Raises:
        UnknownNameError: A pattern matches none.
        UnknownPlatformError: There is none; the message lists the nearest names.
    """
    known = platform_ids()
    if is_pattern(text):
        return matched(text, known, "platform", "latcast platforms"), False
    parts = text.rstrip("/").split("/")
    found = [name for name in known if name.split("/")[: len(parts)] == parts]
    if found:
        return found, False
    from latcast.predictors.platform_names import read_name

    named = read_name(text, known)
    if named is None:
        from latcast.devices.naming_advice import what_to_name

        raise UnknownPlatformError(f"no platform of '{text}' is known; {what_to_name(text)}; all: latcast platforms")
    if not named.platforms:
        raise UnknownPlatformError(
            f"nothing was measured on '{text}'; its chip answers: latcast predict MODEL --on '{text}'; "
            f"devices like it: latcast platforms --find '{named.device}'"
        )
    return [*named.platforms], named.alike


def _id_of(found: Found) -> str:
    return found.platform if isinstance(found, PooledPlatform) else _loaded(found).platform.id


def _loaded(found: Found) -> PlatformPredictor:
    if isinstance(found, PlatformPredictor):
        return found
    return _read(found, found.stat().st_mtime if isinstance(found, Path) else 0.0)


@lru_cache(maxsize=128)
def _read(found: Path | PooledPlatform, _stamp: float) -> PlatformPredictor:
    if isinstance(found, PooledPlatform):
        return found.pool.predictor(found.platform)
    return load_bundle(found, check=SHIPPED_FOLDER not in found.parents)


def resolve_platforms(names: Iterable[On], note: Note | None = None, precision: str = "") -> list[Found]:
    """Return the platforms that a user names, each once: patterns expand to the ids that match them.

    Args:
        names: As :func:`platforms_meant` takes them, patterns of ids (with one of ``*?[``), or platforms that were found already.
        note: See :func:`platforms_meant`.
        precision: See :func:`meaning_of`.

    Raises:
        UnknownNameError: A pattern matches none.
        UnknownPlatformError: There is no such platform.
    """
    found: list[Found] = []
    for name in names:
        if not isinstance(name, str):
            found.append(_found(name))
        elif is_pattern(name) and not Path(name).exists():
            found += map(resolve_platform, matched(name, platform_ids(), "platform", "latcast platforms"))
        else:
            found += platforms_meant(name, note, precision)
    return list({each.platform.id if isinstance(each, PlatformPredictor) else each: each for each in found}.values())


def is_one(on: On | Platforms) -> TypeGuard[On]:
    """Return whether ``on`` is a platform, not a list of them."""
    return isinstance(on, str | os.PathLike | Platform | PooledPlatform | PlatformPredictor)


def load_all(on: On | Platforms) -> list[PlatformPredictor]:
    """Return the predictors of the platforms."""
    return [_loaded(each) for each in found_among(on, "")]


def found_among(on: On | Platforms, precision: str) -> list[Found]:
    """Return the platforms, where a text does not say in which precision those of one; see :func:`meaning_of`."""
    if isinstance(on, NamedPlatforms):
        return resolve_platforms(on.names, on.note, precision)
    return [_found(each, precision) for each in ([on] if is_one(on) else cast("Sequence[On]", on))]
