"""The pool: predictors of known platforms, from which transfer starts, and which of them are like a new one (LitePred §3, §5.1).

A few representative kernels are measured on the new platform. A predictor is similar where its latencies of these are
distributed like the measured ones: divided by their sums, both are distributions, and their Kullback-Leibler divergence

    D(P || Q) = Σ P log(P / Q),    P predicted, Q measured (§5.1),

is 0 where they agree up to one factor. The predictor with the lowest divergence is taken. Beside it stand Spearman's rank
correlation (OneProxy, Lu et al. 2021) and a random choice, with which LitePred compares (§7.4, Fig. 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import BundleError, TrainingError
from latcast.kernels.kernel import Configuration
from latcast.predictors.bundle import load_bundle
from latcast.predictors.bundle_index import scan_bundles
from latcast.predictors.metrics import spearman
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.records import Platform, Unit
from latcast.samplers.sampler import PriorSampler
from latcast.spaces.kernel_space import KernelSpace
from latcast.spaces.kernel_zoo import ConfigurationCounts


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
        """Return a pool of predictors at hand; of two for one platform the first stays."""
        found: dict[str, PlatformPredictor] = {}
        for predictor in predictors:
            found.setdefault(predictor.platform.id, predictor)
        return cls(dict(sorted(found.items())))

    def without(self, unwanted: Callable[[Platform], bool]) -> Pool:
        """Return the pool without some platforms."""
        kept = {name: each for name, each in self.predictors.items() if not unwanted(each.platform)}
        return Pool(kept, self.problems)

    def knowing(self, type_name: str) -> Mapping[str, PlatformPredictor]:
        """Return the predictors that learned kernels of a type."""
        return {name: each for name, each in self.predictors.items() if type_name in each.kernels}

    def latency_ms(self, type_name: str, configurations: np.ndarray) -> dict[str, np.ndarray]:
        """Predict kernels by each predictor that knows their type, (kernels,) by platform id, without network overhead."""
        return {name: each.raw_kernel_latency_ms({type_name: configurations}) for name, each in self.knowing(type_name).items()}


def open_pool(
    folders: Sequence[Path] | None = None,
    *,
    like: tuple[str, str] | None = None,
    watch: Callable[[str, float], None] = lambda platform, share: None,
) -> Pool:
    """Load every bundle of some folders.

    A bundle that cannot be loaded is left out and named: one damaged file does not stop the others.

    Args:
        folders: Where bundles are; the user's and the shipped ones where None.
        like: A unit and a precision; shipped bundles of another kind of unit, number of threads or precision are left out.
        watch: Called with each platform that is loaded, and the part of the bundles that are.

    Raises:
        BundleError: A folder does not exist.
    """
    for folder in folders or ():
        if not folder.is_dir():
            raise BundleError(f"found no folder '{folder}' to take predictors from, expected a folder of bundles; check the path")
    index = scan_bundles(folders)
    entries = [entry for entry in index.entries if like is None or entry.source == "user" or _computes_like(entry.platform, like)]
    predictors: dict[str, PlatformPredictor] = {}
    problems = list(index.problems)
    for place, entry in enumerate(entries):
        watch(entry.platform, place / len(entries))
        try:
            predictors[entry.platform] = load_bundle(entry.path)
        except BundleError as problem:
            problems.append(str(problem))
    return Pool(predictors, tuple(problems))


def _computes_like(platform: str, like: tuple[str, str]) -> bool:
    """Return whether a platform has such a kind of unit, as many threads and the same precision."""
    (_, _, unit, precision), (wanted_unit, wanted_precision) = platform.split("/"), like
    found, wanted = Unit.parse(unit), Unit.parse(wanted_unit)
    return (found.kind, found.threads, precision) == (wanted.kind, wanted.threads, wanted_precision)


CHANNEL_STEPS = 16
"""Consecutive numbers of channels of one sweep (§5.1)."""

KERNEL_SIZES = (1, 3, 5, 7)
"""Windows of one sweep (§5.1)."""

SWEPT_SHARE = 0.5
"""Part of the representative kernels that belong to sweeps; the paper gives no number."""

FEWEST = 3
"""Kernels below which no similarity can be told."""


def divergence(predicted_ms: np.ndarray, measured_ms: np.ndarray) -> float:
    """Return the Kullback-Leibler divergence of latencies divided by their sums; 0 where one is a multiple of the other.

    Args:
        predicted_ms: (kernels,), positive: P.
        measured_ms: (kernels,), positive: Q.

    Raises:
        TrainingError: A latency is not positive, for which there is no divergence.
    """
    if predicted_ms.shape != measured_ms.shape or not (predicted_ms > 0).all() or not (measured_ms > 0).all():
        raise TrainingError("a divergence is between two equally long lists of positive latencies; found others")
    p, q = predicted_ms / predicted_ms.sum(), measured_ms / measured_ms.sum()
    return max(float((p * np.log(p / q)).sum()), 0.0)


@dataclass(frozen=True)
class Similarity:
    """Similarity of a platform of the pool, for one kernel type.

    Attributes:
        platform: Id of the pool's platform.
        divergence: See :func:`divergence`; the lower the more alike.
        spearman: Rank correlation of predicted and measured; NaN where one of them is constant.
        scale: Measured over predicted latency, the median.
        dispersion: Mean absolute deviation of log(measured / predicted) from its median: the relative error that is left when
            the scale is known.
    """

    platform: str
    divergence: float
    spearman: float
    scale: float
    dispersion: float

    def to_json(self) -> dict[str, Any]:
        rank = None if np.isnan(self.spearman) else self.spearman
        return {
            "platform": self.platform, "divergence": self.divergence, "spearman": rank, "scale": self.scale,
            "dispersion": self.dispersion,
        }  # fmt: skip


def similarities(pool: Pool, type_name: str, configurations: np.ndarray, measured_ms: np.ndarray) -> list[Similarity]:
    """Compare every predictor of a pool that knows a kernel type with measured kernels of it; the least divergent first.

    Args:
        pool: Predictors of other platforms.
        type_name: The kernel type.
        configurations: (kernels, fields).
        measured_ms: (kernels,).
    """
    found = []
    for platform, predicted_ms in pool.latency_ms(type_name, configurations).items():
        ratio = np.log(measured_ms / predicted_ms)
        middle = float(np.median(ratio))
        found.append(
            Similarity(
                platform, divergence(predicted_ms, measured_ms), spearman(predicted_ms, measured_ms),
                float(np.exp(middle)), float(np.abs(ratio - middle).mean()),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: each.divergence)


def representative_configurations(
    space: KernelSpace, listed: ConfigurationCounts, count: int, *, seed: int = 0
) -> list[Configuration]:
    """Choose kernels by which a platform is recognised (§5.1): drawn as in networks, or in fine-grained sweeps.

    A sweep keeps everything of a kernel but one dimension: sixteen consecutive numbers of channels, which show the staircase
    of a platform, or the window's sizes.

    Args:
        space: Valid configurations of the kernel type.
        listed: Configurations of networks, from which the sampler learns.
        count: How many; fewer where the space has hardly more.
        seed: Of every random choice.
    """
    drawn = PriorSampler(space, listed, seed).suggest(count)
    found = dict.fromkeys(drawn[: count - round(SWEPT_SHARE * count)])
    for start in drawn:
        for row in _sweeps(space, start):
            if len(found) >= count:
                return list(found)
            found.setdefault(row)
    for row in drawn:
        found.setdefault(row)
    return list(found)[:count]


def _sweeps(space: KernelSpace, start: Configuration) -> list[Configuration]:
    """Return the sweeps from one configuration: of every number of channels, and of the window."""
    changes: list[Mapping[str, int]] = [
        {name: value + step} for name, value in space.spans(start).items() for step in range(CHANNEL_STEPS)
    ]
    dimensions = space.dimensions(start)
    if "kernel_h" in dimensions and "pad_h" in dimensions:
        same = {"pad_h": 0, "pad_w": 0}
        changes += [
            {"kernel_h": size, "kernel_w": size, **(dict.fromkeys(same, size - 1) if size % 2 else same)} for size in KERNEL_SIZES
        ]
    rows = (space.moved(start, change) for change in changes)
    return list(dict.fromkeys(row for row in rows if row is not None))
