"""The pool as one file: platforms that others measured, each the posterior of a device, read when it is asked for.

A safetensors file that is mapped into memory. What platforms have in common is there once: the basis, the networks that they ran,
the priors' covariances. A member's covariance is kept by what its measured networks took away from that of its prior,

    P - Uᵀ U,

with those directions of U alone that count most for networks, in half precision: what is left out makes an interval wider, never
narrower.
"""

from __future__ import annotations

import mmap
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from latcast.errors import BundleError, LatcastError
from latcast.predictors.card import TRAINING_KEYS, TRAINING_LINEAGES
from latcast.predictors.device_forecast import DeviceForecast, Member
from latcast.predictors.intervals import Interval
from latcast.predictors.network_features import TERM_NAMES, network_rules
from latcast.predictors.network_memory import NetworkMemory
from latcast.predictors.platform_predictor import PlatformPredictor
from latcast.predictors.process_basis import ProcessBasis
from latcast.reading import check_schema, parse_json, parse_tensors
from latcast.records import Platform

SCHEMA = 5


class PoolFile:
    """The platforms of a file; nothing of one is read before it is asked for.

    Args:
        path: Of a file that :func:`save_pool` wrote.

    Raises:
        BundleError: The file is missing, damaged or of a later version.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._priors: dict[int, np.ndarray] = {}
        try:
            with path.open("rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as problem:
            raise BundleError(f"cannot read the pool {path}: {problem}; get the file again") from problem
        try:
            self._arrays, texts = parse_tensors(data, error=BundleError)
            index = parse_json(texts["pool"], "its index", error=BundleError)
            check_schema(index["schema"], SCHEMA, "its index", error=BundleError)
            if tuple(index["terms"]) != TERM_NAMES:
                raise BundleError("its terms are of another version; get the file of this version")
            self._row = {str(name): row for row, name in enumerate(index["ids"])}
            self._members = tuple(map(str, index["members"]))
            self._networks, self._lineages = list(map(str, index["networks"])), list(map(str, index["lineages"]))
        except (LatcastError, KeyError, TypeError, ValueError) as problem:
            raise self._damaged(problem) from problem

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, platform: object) -> bool:
        return platform in self._row

    @property
    def platforms(self) -> tuple[str, ...]:
        """Ids, sorted."""
        return tuple(self._row)

    def card(self, platform: str) -> dict[str, Any]:
        """Return the card of a platform; see :mod:`latcast.predictors.card`.

        Raises:
            BundleError: The file is damaged.
        """
        row = self._row[platform]
        try:
            start, end = self._arrays["platform.card"][row : row + 2].tolist()
            card = dict(parse_json(self._arrays["card"][start:end].tobytes(), "a card", error=BundleError))
            ran = np.unpackbits(self._arrays["platform.networks"][row], count=len(self._networks)).nonzero()[0]
            card[TRAINING_KEYS] = sorted(self._networks[place] for place in ran.tolist())
            card[TRAINING_LINEAGES] = sorted(self._lineages[place] for place in card[TRAINING_LINEAGES])
        except (LatcastError, KeyError, TypeError, ValueError, IndexError) as problem:
            raise self._damaged(problem) from problem
        return card

    def predictor(self, platform: str) -> PlatformPredictor:
        """Return the predictor of a platform.

        Raises:
            BundleError: The file is damaged.
        """
        card = self.card(platform)
        try:
            forecast, interval = self._forecast(self._row[platform])
        except (LatcastError, KeyError, TypeError, ValueError, IndexError) as problem:
            raise self._damaged(problem) from problem
        return PlatformPredictor.of_device(platform, network_rules(Platform.parse(platform)), forecast, interval, card)

    def _forecast(self, row: int) -> tuple[DeviceForecast, Interval]:
        arrays = self._arrays
        first, last = arrays["platform.member"][row : row + 2].tolist()
        network_scale, kernel_scale, *four, measured, memory, explained, low, high, judged = arrays["platform"][row].tolist()
        means = arrays["member.mean"][first:last].astype(np.float64)
        numbers = arrays["member.numbers"][first:last].astype(np.float64)
        if not (np.isfinite(means).all() and np.isfinite(numbers).all() and np.isfinite(arrays["platform"][row]).all()):
            raise ValueError("found a number that is not finite")
        members = []
        for place in range(last - first):
            start, end = arrays["member.root"][first + place : first + place + 2].tolist()
            root = arrays["root"][start:end].astype(np.float32)
            covariance = self._prior(int(arrays["member.prior"][first + place])) - root.T @ root
            name = self._members[int(arrays["member.name"][first + place])]
            own_place = int(arrays["member.own"][first + place])
            own = None if own_place < 0 else arrays["own"][own_place].astype(np.float64)
            weight, known_weight, noise, scale = numbers[place].tolist()
            members.append(Member(name, weight, known_weight, means[place], covariance, noise, scale, own))
        offsets = arrays["memory.offsets"][int(memory)].astype(np.float64)
        ran = np.unpackbits(arrays["platform.known"][row], count=len(offsets)).astype(bool)
        start, end = arrays["platform.measured"][row : row + 2].tolist()
        measured_ms, residual = (arrays[f"measured.{name}"][start:end].astype(np.float64) for name in ("ms", "residual"))
        forecast = DeviceForecast(
            self._basis, network_scale, kernel_scale, tuple(members), ((four[0], four[1]), (four[2], four[3])), int(measured),
            NetworkMemory(
                self._places, offsets, explained, ran, self._places[arrays["measured.place"][start:end]], measured_ms, residual
            ),
        )  # fmt: skip
        return forecast, Interval(low, high, int(judged), 0.0)

    @cached_property
    def _basis(self) -> ProcessBasis:
        return ProcessBasis.from_arrays(self._arrays)

    @cached_property
    def _places(self) -> np.ndarray:
        return self._arrays["memory.places"].astype(np.float64)

    def _prior(self, place: int) -> np.ndarray:
        """Return the covariance of the prior, (state, state)."""
        if place not in self._priors:
            size = len(TERM_NAMES) + self._basis.size
            found = np.zeros((size, size), dtype=np.float32)
            found[np.tril_indices(size)] = self._arrays["prior"][place]
            self._priors[place] = found + np.tril(found, -1).T
        return self._priors[place]

    def _damaged(self, problem: Exception) -> BundleError:
        return BundleError(f"{self.path}: found no pool of platforms: {problem}; get the file again")
