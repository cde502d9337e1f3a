"""The pool: predictors of known platforms, from which transfer to a new one starts (LitePred §3, the "knowledge pool")."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latcast.errors import BundleError
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import IndexEntry, scan_bundles
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform


@dataclass(frozen=True)
class Pool:
    """Predictors by platform id.

    Attributes:
        predictors: In the order of their ids.
        problems: Why bundles that were found are not in it, a sentence each.
    """

    predictors: Mapping[str, PlatformPredictor]
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.predictors)

    def __iter__(self) -> Iterator[str]:
        return iter(self.predictors)

    @classmethod
    def of(cls, predictors: Sequence[PlatformPredictor]) -> Pool:
        """A pool of predictors at hand; of two for one platform the first stays."""
        found: dict[str, PlatformPredictor] = {}
        for predictor in predictors:
            found.setdefault(predictor.platform.id, predictor)
        return cls(dict(sorted(found.items())))

    def without(self, unwanted: Callable[[Platform], bool]) -> Pool:
        """The pool without some platforms."""
        kept = {name: each for name, each in self.predictors.items() if not unwanted(each.platform)}
        return Pool(kept, self.problems)

    def knowing(self, type_name: str) -> Mapping[str, PlatformPredictor]:
        """The predictors that learned kernels of a type."""
        return {name: each for name, each in self.predictors.items() if type_name in each.kernels}

    def latency_ms(self, type_name: str, configurations: np.ndarray) -> dict[str, np.ndarray]:
        """What each predictor that knows a type says of kernels, (kernels,) by platform id, without the overhead of networks."""
        return {name: each.raw_kernel_latency_ms({type_name: configurations}) for name, each in self.knowing(type_name).items()}


def open_pool(
    folders: Sequence[Path] | None = None,
    *,
    exclude: Collection[str] = (),
    watch: Callable[[str, float], None] = lambda platform, share: None,
) -> Pool:
    """Loads every bundle of some folders.

    A bundle that cannot be loaded is left out and named: one damaged file among a hundred is no reason to stop.

    Args:
        folders: Where bundles are; the user's and the shipped ones where None.
        exclude: Platform ids that are left out, such as the platform that is transferred to.
        watch: Called with each platform that is loaded, and the part of the bundles that are.

    Raises:
        BundleError: A folder does not exist.
    """
    for folder in folders or ():
        if not folder.is_dir():
            raise BundleError(f"found no folder '{folder}' to take predictors from, expected a folder of bundles; check the path")
    shelf = scan_bundles(folders)
    entries = [entry for entry in shelf.entries if entry.platform not in exclude]
    predictors: dict[str, PlatformPredictor] = {}
    problems = list(shelf.problems)
    for place, entry in enumerate(entries):
        watch(entry.platform, place / len(entries))
        try:
            predictors[entry.platform] = _loaded(entry)
        except BundleError as problem:
            problems.append(str(problem))
    return Pool(predictors, tuple(problems))


def _loaded(entry: IndexEntry) -> PlatformPredictor:
    return load_bundle(entry.path)
